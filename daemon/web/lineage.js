// SPDX-License-Identifier: Apache-2.0
// How a job came to where it is: a lane for each attempt over the iterations,
// solid where the line lives on and faint where it was left, and below it the
// same in words, as `trainctl lineage` tells it.
import {el, replace, svg} from './dom.js';
import {int, num, plain, plural, real} from './format.js';
import {section} from './story.js';
import {verdictIcon, verdictOf} from './words.js';

const LANE = 22;
const LEFT = 26;
const MOST = 40; // lanes drawn: the latest

// ---- what happened, joined -------------------------------------------------

function incidentText(i) {
    if (!i.verdict)
        return 'not explained';
    return i.layer ? `${i.verdict} at ${i.layer}`
        : `${i.verdict} of ${i.tensor}`;
}

// Those of one kind that follow on each other become one.
function join(incidents) {
    const out = [];
    for (const i of [...incidents].sort((a, b) => a.id - b.id)) {
        const last = out.at(-1), text = incidentText(i);
        if (last && last.attempt === i.attempt && last.text === text &&
            i.iteration <= last.last + 1) {
            last.last = i.iteration;
            last.n++;
        } else {
            out.push({kind: 'incident', attempt: i.attempt, n: 1, text,
                      iteration: i.iteration, last: i.iteration,
                      verdict: i.verdict, id: i.id});
        }
    }
    return out;
}

function guardMark(g) {
    return {kind: 'guard', attempt: g.attempt, iteration: g.iteration,
            text: `${g.condition}: ${g.text}: ${g.action}`};
}

function backMark(r) {
    return {kind: 'back', attempt: r.attempt, iteration: r.from_iteration,
            record: r};
}

// Of each attempt: what of it lives on, and what was seen in it.
function lines(job, {attempts, incidents, guards, rollbacks}) {
    const marks = [...join(incidents), ...guards.map(guardMark),
                   ...rollbacks.map(backMark)];
    const order = ['incident', 'guard', 'back'];
    return attempts.map((a) => {
        const cuts = rollbacks.filter((r) => r.attempt >= a.attempt)
            .map((r) => r.to_iteration);
        return {
            a, start: a.start_iteration,
            end: Math.max(a.end_iteration, a.start_iteration,
                          a.end_us ? 0 : job.iteration),
            cut: Math.min(...cuts, Infinity),
            marks: marks.filter((m) => m.attempt === a.attempt).sort(
                (x, y) => x.iteration - y.iteration ||
                    order.indexOf(x.kind) - order.indexOf(y.kind)),
        };
    });
}

// ---- the picture -----------------------------------------------------------

function lane(line, i, x) {
    const y = LANE * i + LANE / 2 + 4;
    const cut = Math.max(line.start, Math.min(line.end, line.cut));
    const parts = [svg('text', {x: 0, y: y + 4, class: 'name'},
                       String(line.a.attempt))];
    if (cut > line.start || line.end === line.start)
        parts.push(svg('line', {
            x1: x(line.start), x2: Math.max(x(cut), x(line.start) + 2), y1: y,
            y2: y, class: line.a.policy_changed ? 'live changed' : 'live'}));
    if (line.end > cut)
        parts.push(svg('line', {x1: x(cut), x2: x(line.end), y1: y, y2: y,
                                class: 'left'}));
    for (const m of line.marks)
        parts.push(laneMark(m, x(m.iteration), y));
    return parts;
}

function laneMark(m, x, y) {
    if (m.kind === 'incident' && !m.verdict)
        return svg('circle', {cx: x, cy: y, r: 1, class: 'dot'});
    if (m.kind === 'incident') {
        const v = verdictOf(m.verdict);
        const points = v.shape.map(([dx, dy]) =>
            `${x + 4 * dx},${y + 4 * dy}`).join(' ');
        return svg('polygon', {points, 'data-verdict': v.name,
                               class: 'mark'},
                   svg('title', {}, `${int(m.iteration)}: ${plain(m.text)}`));
    }
    if (m.kind === 'guard')
        return svg('text', {x: x - 3, y: y - 5, class: 'letter'}, 'G',
                   svg('title', {}, plain(m.text)));
    return svg('circle', {cx: x, cy: y, r: 2.5, class: 'end'});
}

// From where an attempt was left to where the next one began.
function bend(line, next, i, x) {
    const back = line.marks.find((m) => m.kind === 'back');
    const y = LANE * i + LANE / 2 + 4;
    const from = x(back ? back.iteration : Math.min(line.end, next.start));
    const to = x(next.start);
    return svg('path', {
        class: back ? 'bend back' : 'bend', fill: 'none',
        d: `M${from} ${y} C${from + 8} ${y + LANE * 0.7} ` +
           `${to - 8} ${y + LANE * 0.3} ${to} ${y + LANE}`,
    });
}

function picture(list, job, width) {
    const last = Math.max(1, ...list.map((l) => l.end));
    const x = (iteration) =>
        LEFT + iteration / last * (width - LEFT - 8);
    const height = LANE * list.length + 22;
    const words = `${plural(list.length, 'attempt')}, ` +
        `${plural(job.rollbacks, 'rollback')}; the list below has the same`;
    return svg('svg', {width, height, class: 'lanes', role: 'img',
                       viewBox: `0 0 ${width} ${height}`, 'aria-label': words},
        list.slice(1).map((next, i) => bend(list[i], next, i, x)),
        list.map((line, i) => lane(line, i, x)),
        svg('text', {x: LEFT, y: height - 4, class: 'axis'}, '0'),
        svg('text', {x: width - 8, y: height - 4, class: 'axis',
                     'text-anchor': 'end'}, int(last)));
}

// ---- the words -------------------------------------------------------------

function cost(line, first) {
    const {updates, mean_step_us: us, policy_changed: changed} = line.a;
    if (!updates || !(num(us) > 0))
        return '';
    const more = first && first !== line && changed
        ? 100 * (us / first.a.mean_step_us - 1) : NaN;
    return `, ${real(us / 1e3)} ms per update` + (Number.isNaN(more) ? ''
        : ` (${more < 0 ? '\u2212' : '+'}${Math.abs(more).toFixed(1)} %)`);
}

// "3 forward_overflow at conv2 (1641 to 1653)", the places with most first.
function incidentCounts(marks) {
    const sums = new Map();
    for (const m of marks.filter((each) => each.kind === 'incident')) {
        const sum = sums.get(m.text) ?? {n: 0, first: m.iteration, last: 0,
                                         verdict: m.verdict};
        sum.n += m.n;
        sum.last = Math.max(sum.last, m.last);
        sums.set(m.text, sum);
    }
    const list = [...sums].sort((a, b) => b[1].n - a[1].n);
    return el('ul', {}, list.slice(0, 8).map(([text, sum]) => el('li', {},
        verdictIcon(sum.verdict, 10), ` ${int(sum.n)} ${plain(text)} `,
        el('span', {class: 'muted', text: sum.first === sum.last
            ? `(${int(sum.first)})`
            : `(${int(sum.first)} to ${int(sum.last)})`}))));
}

function markItem(m) {
    if (m.kind === 'back')
        return backItem(m.record);
    return el('li', {class: 'guard'},
        el('span', {class: 'number', text: int(m.iteration)}),
        ` guard ${plain(m.text)}`);
}

function backItem(r) {
    const left = Math.max(0, r.from_iteration - r.to_iteration);
    return el('li', {class: 'back'},
        el('span', {class: 'number', text: int(r.from_iteration)}),
        ` \u21b6 back to ${int(r.to_iteration)} ` +
        `(${plain(r.checkpoint) || 'the start'}): ${plain(r.cause)}; ` +
        `${plural(left, 'iteration')} abandoned`,
        r.difference ? el('div', {class: 'with',
                                  text: `with ${plain(r.difference)}`})
            : null);
}

function attemptItem(line, first) {
    const {a} = line;
    const resumed = a.resumed_from ? `, from ${plain(a.resumed_from)}` : '';
    return el('li', {},
        el('b', {text: `attempt ${a.attempt}`}),
        `: iterations ${int(a.start_iteration)} to ${int(line.end)}, ` +
        `${plural(a.updates, 'update')}${cost(line, first)}${resumed}, ` +
        `${plain(a.state)}`,
        a.policy_changed ? el('div', {class: 'changed', text:
            `policy changed${a.difference ? `: ${plain(a.difference)}` : ''}`})
            : null,
        a.obituary ? el('div', {class: 'muted', text: plain(a.obituary)})
            : null,
        incidentCounts(line.marks),
        el('ul', {}, line.marks.filter((m) => m.kind !== 'incident')
            .slice(-50).map(markItem)));
}

export class Lineage {
    constructor() {
        Object.assign(this, section('lineage', 'Lineage'));
    }

    // story: {attempts, incidents, guards, rollbacks}
    update(job, story) {
        const all = lines(job, story);
        const list = all.slice(-MOST);
        this.count.textContent = all.length
            ? `${plural(all.length, 'attempt')}, ` +
              `${plural(job.rollbacks, 'rollback')}` : '';
        if (all.length === 0) {
            replace(this.body, el('p', {class: 'empty', text: job.attempt
                ? 'reading\u2026' : 'It has not been started.'}));
            return;
        }
        const width = Math.max(240, this.body.clientWidth || 320);
        const first = all.find((l) => l.a.updates > 0 &&
            num(l.a.mean_step_us) > 0);
        replace(this.body,
            all.length > 1 || story.incidents.length
                ? picture(list, job, width) : null,
            el('ol', {class: 'tree'},
               list.map((line) => attemptItem(line, first))),
            el('p', {class: 'muted', text:
                `iteration ${int(job.iteration)} = ` +
                `${plural(job.updates, 'update')} + ` +
                `${plural(job.skips, 'skip')}`}));
    }
}
