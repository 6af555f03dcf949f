// SPDX-License-Identifier: Apache-2.0
// What happened to a job: incidents with what is known of each, checkpoints,
// evaluations.
import {el, replace, setText, show} from './dom.js';
import {bytes, int, known, num, percent, plain, plural, real, scale, when,
        whenExactly} from './format.js';
import {verdictBadge, verdictIcon, verdictOf, verdicts} from './words.js';

const FIRST = 20; // incidents shown before somebody asks for more
const FEW = 8;    // checkpoints and evaluations

export function section(name, title) {
    const count = el('span', {class: 'muted count'});
    const body = el('div', {class: 'body'});
    const node = el('section', {class: `card ${name}`, 'data-section': name},
        el('h2', {}, `${title} `, count), body);
    return {node, body, count};
}

function moreButton(n, act) {
    return el('button', {type: 'button', class: 'quiet', onclick: act,
                         text: `show ${int(n)} more`});
}

// ---- one incident ----------------------------------------------------------

const answers = {yes: 'finite', no: 'not finite', '': 'not asked'};

function where(i) {
    if (!i.located)
        return i.replayed ? 'not found again' : 'not run again';
    return plain(`${i.layer || i.tensor}${i.op ? `, ${i.op}` : ''}` +
                 `${i.pass ? `, ${i.pass}` : ''}`);
}

function indexOf(i) {
    return i.index?.length ? `[${i.index.join(',')}]` : '';
}

function samples(i) {
    if (!i.n_guilty)
        return i.sample >= 0 && i.located ? `${i.sample} (there)`
            : 'no single one';
    const rest = i.n_guilty - i.samples.length;
    return i.samples.join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}

// Facts as [name, text]; those that nobody knows are left out.
function evidence(i) {
    const list = [
        ['pass', i.pass], ['layer', i.layer], ['op', i.op],
        ['tensor', i.tensor + indexOf(i)], ['dtype', i.dtype],
        ['value', i.what], ['in float32', i.has_fp32_value
            ? String(Number(num(i.fp32_value).toPrecision(9))) : ''],
        ['loss scale', scale(i.scale)], ['samples', samples(i)],
        ['all in float32', answers[i.fp32_finite]],
        ['all in bfloat16', answers[i.bf16_finite]],
        ['that layer alone in float32', answers[i.alone_finite]],
        ['finite at scale', Number.isNaN(num(i.finite_scale)) ? ''
            : scale(i.finite_scale)],
        ['smallest cure', i.regions], ['micro batch', String(i.micro_batch)],
        ['data window', i.data_position >= 0 ? int(i.data_position) : ''],
        ['seen in', i.trigger], ['attempt', String(i.attempt)],
        ['run again', `${plural(i.runs, 'time')}, ` +
            `${real(i.cost_us / 1e3, 3)} ms`],
        ['at', whenExactly(i.t_us)],
    ];
    return list.filter(([, v]) => v && v !== 'not asked');
}

function copyButton(text, label) {
    return el('button', {
        type: 'button', class: 'quiet', text: label,
        onclick: async (event) => {
            const button = event.currentTarget;
            try {
                await navigator.clipboard.writeText(text);
                button.textContent = 'copied';
            } catch (e) {
                getSelection().selectAllChildren(
                    button.parentNode.querySelector('code'));
                button.textContent = 'selected: copy it';
            }
            setTimeout(() => {
                button.textContent = label;
            }, 2000);
        },
    });
}

function pretty(json) {
    try {
        return JSON.stringify(JSON.parse(json), null, 1)
            .replace(/\n\s*/g, ' ');
    } catch (e) {
        return json;
    }
}

function cure(i, onCure, whyNot) {
    if (!i.cure)
        return null;
    const text = plain(pretty(i.cure));
    return el('div', {class: 'cure'},
        el('h3', {text: 'cure'}), el('pre', {}, el('code', {text})),
        copyButton(text, 'copy'),
        el('button', {type: 'button', class: 'act', 'data-cure': i.id,
                      text: 'roll back with this cure\u2026',
                      'aria-disabled': whyNot ? 'true' : null,
                      title: whyNot || null,
                      onclick: () => onCure(i)}));
}

function incidentBody(i, onCure, whyNot) {
    return [
        el('p', {class: 'sentence', text: plain(i.sentence) ||
                 (i.replayed ? 'Nothing is known of it.'
                     : 'It is being run again, or will not be.')}),
        el('dl', {class: 'facts'}, evidence(i).map(([name, value]) =>
            el('div', {}, el('dt', {text: name}),
               el('dd', {text: plain(value)})))),
        cure(i, onCure, whyNot),
        i.name ? el('p', {class: 'kept'},
                    el('code', {text: `trainctl replay ${i.id}`}), ' ',
                    copyButton(`trainctl replay ${i.id}`, 'copy')) : null,
    ].filter(Boolean);
}

// ---- all incidents ---------------------------------------------------------

// Those that follow on each other and say the same become one, and those that
// nothing is known of if no other lies between: the newest first, each {key, items: newest first}.
function groupOf(list) {
    const groups = [];
    const sorted = [...list].sort((a, b) => b.attempt - a.attempt ||
        b.iteration - a.iteration || b.id - a.id);
    for (const i of sorted) {
        const last = groups.at(-1), before = last?.items.at(-1);
        if (before && before.attempt === i.attempt &&
            (before.iteration - i.iteration <= 1 || !i.replayed) &&
            before.replayed === i.replayed &&
            before.verdict === i.verdict && before.live === i.live &&
            where(before) === where(i))
            last.items.push(i);
        else
            groups.push({items: [i]});
    }
    // Its oldest stays as it grows.
    for (const group of groups)
        group.key = group.items.at(-1).id;
    return groups;
}

function span(items) {
    const last = items[0].iteration, first = items.at(-1).iteration;
    return first === last ? int(last)
        : `${int(first)}\u2013${int(last)} (${int(items.length)})`;
}

export class Incidents {
    // on: {cure(incident), whyNot()}
    constructor(on) {
        this.on = on;
        Object.assign(this, section('incidents', 'Incidents'));
        this.most = FIRST;
        this.only = null;
        this.open = new Map(); // key of a group: incident that is shown
        this.list = [];
        this.legend = el('div', {class: 'legend', role: 'group',
                                 'aria-label': 'show one verdict only'});
        this.gap = el('p', {class: 'hint'});
        this.items = el('div', {class: 'items'});
        this.body.append(this.legend, this.gap, this.items);
    }

    // gap: '' or a sentence about those that are left out.
    update(list, gap) {
        this.list = list;
        setText(this.count, list.length ? `${int(list.length)}` : '');
        setText(this.gap, gap);
        show(this.gap, gap !== '');
        this.draw();
    }

    draw() {
        const groups = groupOf(this.list.filter((i) => this.only === null ||
            verdictOf(i.verdict).name === this.only));
        const rest = groups.length - this.most;
        this.drawLegend();
        replace(this.items,
            groups.slice(0, this.most).map((g) => this.item(g)),
            rest > 0 ? moreButton(rest, () => {
                this.most += 200;
                this.draw();
            }) : null,
            groups.length ? null : el('p', {
                class: 'empty', text: 'None: every number was finite.'}));
        this.groups = groups;
    }

    drawLegend() {
        const counts = new Map();
        for (const i of this.list) {
            const {name} = verdictOf(i.verdict);
            counts.set(name, (counts.get(name) ?? 0) + 1);
        }
        replace(this.legend, Object.entries(verdicts)
            .filter(([, v]) => counts.has(v.name))
            .map(([key, v]) => el('button', {
                type: 'button', class: 'chip', title: v.meaning,
                'aria-pressed': String(this.only === v.name),
                onclick: () => {
                    this.only = this.only === v.name ? null : v.name;
                    this.draw();
                }}, verdictIcon(key), el('b', {text: v.letter}),
                ` ${v.name} ${int(counts.get(v.name))}`)));
    }

    item(group) {
        const [i] = group.items;
        const body = el('div', {class: 'detail'});
        const fill = () => replace(body, this.detail(group));
        const node = el('details', {
            class: `incident ${i.live ? '' : 'left'}`,
            'data-key': group.key, open: this.open.has(group.key),
            ontoggle: () => {
                if (!node.open)
                    this.open.delete(group.key);
                else if (!this.open.has(group.key))
                    this.open.set(group.key, group.items.at(-1).id);
                if (node.open && !body.firstChild)
                    fill();
            }},
            el('summary', {}, verdictBadge(i.verdict),
               el('span', {class: 'number', text: span(group.items)}),
               el('span', {class: 'place', text: where(i)}),
               i.live ? null : el('span', {class: 'muted', text: 'left'})),
            body);
        if (this.open.has(group.key))
            fill();
        return node;
    }

    detail(group) {
        const id = this.open.get(group.key);
        const at = Math.max(0, group.items.findIndex((i) => i.id === id));
        const turn = (to, text) => el('button', {
            type: 'button', class: 'quiet', text,
            disabled: !group.items[to], onclick: (event) => {
                const {parentNode} = event.currentTarget.parentNode;
                this.open.set(group.key, group.items[to].id);
                replace(parentNode, this.detail(group));
                parentNode.querySelector('button:enabled')?.focus();
            }});
        return [
            group.items.length > 1 ? el('div', {class: 'row'},
                turn(at + 1, 'earlier'), turn(at - 1, 'later'),
                el('span', {text: `incident ${group.items[at].id}, ` +
                            `iteration ${int(group.items[at].iteration)}`}))
                : null,
            ...incidentBody(group.items[at], this.on.cure, this.on.whyNot()),
        ];
    }

    // Opens it and brings it into sight.
    reveal(id) {
        this.only = null;
        const at = groupOf(this.list).findIndex(
            (g) => g.items.some((i) => i.id === id));
        if (at < 0)
            return;
        this.most = Math.max(this.most, at + 1);
        const {key} = groupOf(this.list)[at];
        this.open.set(key, id);
        this.draw();
        const node = this.items.querySelector(`[data-key="${key}"]`);
        node.scrollIntoView({block: 'nearest'});
        node.querySelector('summary').focus();
    }
}

// ---- tables ----------------------------------------------------------------

function table(heads, rows) {
    return el('div', {class: 'scroll'}, el('table', {class: 'small'},
        el('thead', {}, el('tr', {}, heads.map(([text, kind]) =>
            el('th', {scope: 'col', class: kind, text})))),
        el('tbody', {}, rows)));
}

const right = 'number';

export class Checkpoints {
    // on: {back(checkpoint), whyNot()}
    constructor(on) {
        this.on = on;
        this.most = FEW;
        Object.assign(this, section('checkpoints', 'Checkpoints'));
    }

    update(list) {
        this.list = list;
        // Those that are still on the disk first; pruned ones on demand.
        const good = list.filter((c) => c.state !== 'pruned');
        const order = [...good].reverse().concat(
            list.filter((c) => c.state === 'pruned').reverse());
        const shown = order.slice(0, Math.min(this.most, this.most === FEW
            ? Math.max(good.length, 1) : Infinity));
        const rest = list.length - shown.length;
        setText(this.count, list.length ? `${int(good.length)} kept` : '');
        replace(this.body, list.length
            ? table([['iteration', right], ['metric', right], ['why', ''],
                     ['size', `${right} size`], ['at', right], ['', '']],
                    shown.map((c) => this.row(c)))
            : el('p', {class: 'empty', text: 'None yet.'}),
            rest > 0 ? moreButton(rest, () => {
                this.most += 100;
                this.update(this.list);
            }) : null);
    }

    row(c) {
        const why = this.on.whyNot() ||
            (c.state === 'good' ? '' : `it is ${c.state}`);
        return el('tr', {class: c.live && c.state === 'good' ? '' : 'left'},
            el('td', {class: right, text: int(c.iteration),
                      title: plain(c.name)}),
            el('td', {class: right, text: (c.best ? '\u2605 best ' : '') +
                known(c.metric)}),
            el('td', {text: c.cause + (c.live ? '' : ', left') +
                (c.state === 'good' ? '' : `, ${c.state}`)}),
            el('td', {class: `${right} size`, text: bytes(c.bytes)}),
            el('td', {class: right, text: when(c.t_us),
                      title: whenExactly(c.t_us)}),
            el('td', {}, el('button', {
                type: 'button', class: 'quiet', text: 'back\u2026',
                'aria-label': `roll back to iteration ${c.iteration}`,
                'aria-disabled': why ? 'true' : null, title: why || null,
                onclick: () => this.on.back(c)})));
    }
}

export class Evaluations {
    constructor() {
        this.most = FEW;
        Object.assign(this, section('evaluations', 'Evaluations'));
    }

    update(list) {
        this.list = list;
        const shown = [...list].reverse().slice(0, this.most);
        const has = (key) => list.some((e) => !Number.isNaN(num(e[key])));
        const columns = [
            ['iteration', (e) => int(e.iteration)],
            ['loss', (e) => real(e.loss)],
            has('accuracy') && ['accuracy', (e) => percent(e.accuracy)],
            has('top_k') && ['top k', (e) => percent(e.top_k)],
            has('perplexity') && ['perplexity', (e) => real(e.perplexity)],
            ['of', (e) => int(e.n) + (e.ema ? ' (averaged)' : '') +
                (e.incomplete ? ', stopped' : '')],
        ].filter(Boolean);
        const rest = list.length - shown.length;
        this.count.textContent = list.length ? int(list.length) : '';
        replace(this.body, list.length
            ? table(columns.map(([head]) => [head, right]),
                    shown.map((e) => el('tr', {class: e.live ? '' : 'left'},
                        columns.map(([, f]) =>
                            el('td', {class: right, text: f(e)})))))
            : el('p', {class: 'empty', text: 'None yet.'}),
            rest > 0 ? moreButton(rest, () => {
                this.most += 100;
                this.update(this.list);
            }) : null);
    }
}
