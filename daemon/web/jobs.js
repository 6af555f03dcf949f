// SPDX-License-Identifier: Apache-2.0
// The first page: devices, what runs and waits and why, what is over, and what
// happened lately.
import * as api from './api.js';
import {el, setText, setTitle, show, throttle} from './dom.js';
import {duration, int, known, num, percent, plain, real, scale, when,
        whenExactly} from './format.js';
import {isFinal, rank, setState, stateBadge, verdictIcon, verdictOf}
    from './words.js';

const RECENT = 12; // events shown
const PAGE = 100;  // finished jobs shown at first

// ---- one row ---------------------------------------------------------------

// name, head, class, what it shows; a number of 0 iterations is no number.
const columns = [
    ['id', 'job', 'number', (j) => String(j.id)],
    ['state', 'state', ''],
    ['name', 'name', 'name'],
    ['progress', 'progress', ''],
    ['eta', 'left', 'number', (j) => j.state === 'running'
        ? duration(j.eta_s) : ''],
    ['loss', 'loss', 'number', (j) => j.iteration ? real(j.loss) : ''],
    ['accuracy', 'accuracy', 'number', (j) => Number.isNaN(num(j.accuracy))
        ? '' : percent(j.accuracy)],
    ['scale', 'loss scale', 'number', (j) => j.iteration ? scale(j.scale)
        : ''],
    ['skips', 'skips', 'number'],
    ['speed', 'it/s', 'number', (j) => j.state === 'running'
        ? known(j.iterations_per_s, 3) : ''],
    ['dtype', 'dtype', '', (j) => j.dtype],
    ['device', 'device', '', (j) => j.device],
    ['user', 'user', '', (j) => j.user],
    ['reason', 'why', 'reason'],
];

function fraction(job) {
    return job.total_iterations > 0
        ? Math.min(1, job.iteration / job.total_iterations) : 0;
}

export function progressText(job) {
    const total = job.total_iterations;
    if (!total)
        return job.iteration ? int(job.iteration) : '';
    return `${int(job.iteration)} of ${int(total)}`;
}

class Row {
    constructor(app, job) {
        this.cells = {};
        this.node = el('tr', {'data-job': job.id},
            columns.map(([name, head, kind]) => {
                const cell = el('td', {class: `${kind} c-${name}`,
                                       'data-head': head});
                this.cells[name] = cell;
                return cell;
            }));
        this.link = el('a', {href: `#/job/${job.id}`});
        this.cells.name.append(this.link);
        this.badge = stateBadge();
        this.cells.state.append(this.badge);
        this.bar = el('progress', {max: 1, 'aria-label': 'progress'});
        this.count = el('span', {class: 'number'});
        this.cells.progress.append(this.bar, this.count);
        this.icon = el('span');
        this.skips = el('span');
        this.cells.skips.append(this.icon, this.skips);
        this.update(job);
    }

    update(job) {
        this.job = job;
        for (const [name, , , text] of columns)
            if (text)
                setText(this.cells[name], plain(text(job)));
        setText(this.link, plain(job.name) || '(no name)');
        setState(this.badge, job.state);
        this.bar.value = fraction(job);
        setText(this.count, progressText(job));
        this.node.classList.toggle('final', isFinal(job.state));
        setText(this.cells.reason, reasonOf(job));
        setTitle(this.cells.reason, plain(job.reason));
        setText(this.skips, job.iteration ? int(job.skips) : '');
        this.cells.skips.classList.toggle('none', !job.iteration);
        this.mark(job.verdict);
    }

    // The last incident's verdict stands beside the skips.
    mark(verdict) {
        if (!verdict || this.icon.dataset.verdict === verdict)
            return;
        this.icon.dataset.verdict = verdict;
        this.icon.replaceChildren(verdictIcon(verdict, 10), ' ');
        setTitle(this.cells.skips,
                 `last incident: ${verdictOf(verdict).name}`);
    }
}

function reasonOf(job) {
    const since = isFinal(job.state) ? `${when(job.end_us)} ` : '';
    const changed = job.policy_changed ? ' (policy changed)' : '';
    return since + plain(job.reason) + changed;
}

// ---- devices ---------------------------------------------------------------

function deviceCard(app, device) {
    const job = app.jobs.get(device.job);
    const facts = device.cpus ? `processors ${device.cpus}` : '';
    return el('li', {class: 'device'},
        el('b', {text: plain(device.name), title: plain(facts)}), ' ',
        device.job
            ? el('a', {href: `#/job/${device.job}`,
                       text: `job ${device.job}` +
                             `${job ? ` ${plain(job.name)}` : ''}`})
            : el('span', {class: 'muted',
                          text: device.busy ? 'held by another' : 'free'}));
}

// ---- the page --------------------------------------------------------------

export class JobsPage {
    constructor(app, main) {
        this.app = app;
        this.main = main;
        this.name = 'jobs';
        this.title = 'traind: jobs';
        this.rows = new Map();
        this.finished = false;
        this.most = PAGE;
        this.events = [];
        this.abort = new AbortController();
        this.sort = throttle(() => this.arrange(), 300);
        this.reload = throttle(() => this.load(), 1000);
    }

    enter() {
        this.summary = el('p', {class: 'muted', 'aria-live': 'off'});
        this.devices = el('ul', {class: 'devices'});
        this.filter = el('input', {
            type: 'search', placeholder: 'filter', 'aria-label':
            'filter by name, user, state or reason', oninput: this.sort,
        });
        this.all = el('input', {type: 'checkbox', id: 'all-jobs', onchange:
                                () => this.showFinished(this.all.checked)});
        this.body = el('tbody');
        this.empty = el('p', {class: 'empty', hidden: true});
        this.more = el('button', {text: 'show more', type: 'button',
                                  hidden: true, onclick: () => {
                                      this.most += PAGE;
                                      this.arrange();
                                  }});
        this.log = el('ol', {class: 'events'});
        this.main.replaceChildren(
            el('div', {class: 'bar'}, el('h1', {text: 'Jobs'}), this.summary,
               el('span', {class: 'grow'}), this.filter,
               el('label', {for: 'all-jobs'}, this.all, ' finished, too')),
            this.devices, this.table(), this.empty, this.more,
            el('section', {class: 'lately', 'aria-label': 'what happened'},
               el('h2', {text: 'Lately'}), this.log));
        for (const job of this.app.jobs.values())
            this.put(job);
        this.arrange();
        this.load();
    }

    table() {
        return el('div', {class: 'scroll'},
            el('table', {class: 'jobs'},
               el('caption', {class: 'unseen', text: 'jobs'}),
               el('thead', {}, el('tr', {}, columns.map(([name, head, kind]) =>
                   el('th', {scope: 'col', class: `${kind} c-${name}`,
                             text: head})))),
               this.body));
    }

    leave() {
        this.abort.abort();
        this.sort.cancel();
        this.reload.cancel();
    }

    refresh() {
        this.reload();
    }

    async load() {
        const options = {signal: this.abort.signal};
        const parts = await Promise.allSettled([
            this.loadJobs(options), this.loadDevices(options),
            this.loadEvents(options)]);
        for (const {reason} of parts)
            if (reason && reason.name !== 'AbortError' &&
                reason.status !== 401)
                this.app.toast(reason.message, 'bad');
    }

    async loadJobs(options) {
        let after = 0, page;
        const seen = new Set();
        do {
            page = await api.get('jobs', {all: this.finished || undefined,
                                          after: after || undefined}, options);
            for (const job of page.items) {
                seen.add(job.id);
                this.app.remember(job);
                this.put(job);
            }
            after = page.items.at(-1)?.id;
        } while (page.more && after);
        await this.findEnded(seen, options);
        this.arrange();
    }

    // Those that ended while nobody listened are in no list of what goes on.
    async findEnded(seen, options) {
        const lost = [...this.rows.values()].filter(
            (r) => !seen.has(r.job.id) && !isFinal(r.job.state));
        for (const row of lost) {
            const job = await api.get(`jobs/${row.job.id}`, null, options);
            this.app.remember(job);
            this.put(job);
        }
    }

    async loadDevices(options) {
        const page = await api.get('devices', null, options);
        this.list = page.items;
        this.showDevices();
    }

    showDevices() {
        this.devices.replaceChildren(
            ...(this.list ?? []).map((d) => deviceCard(this.app, d)));
    }

    async loadEvents(options) {
        const page = await api.get('events', {latest: true, limit: RECENT},
                                   options);
        for (const event of page.items)
            this.onEvent(event);
    }

    showFinished(on) {
        this.finished = on;
        this.load();
        this.arrange();
    }

    put(job) {
        const row = this.rows.get(job.id);
        if (row)
            row.update(job);
        else
            this.rows.set(job.id, new Row(this.app, job));
    }

    onJob(job) {
        const before = this.rows.get(job.id)?.job;
        this.put(job);
        if (before?.state !== job.state || before?.priority !== job.priority)
            this.sort();
        if (before?.device !== job.device || before?.state !== job.state)
            this.reload();
    }

    onEvent(event) {
        this.events = this.events.filter((e) => e.seq !== event.seq);
        this.events.unshift(event);
        this.events.sort((a, b) => b.seq - a.seq).splice(RECENT);
        this.log.replaceChildren(...this.events.map((e) => el('li', {},
            el('time', {text: when(e.t_us), title: whenExactly(e.t_us)}), ' ',
            e.job ? el('a', {href: `#/job/${e.job}`, text: `job ${e.job}`})
                : '', ' ',
            el('span', {text: plain(eventText(e))}))));
    }

    matches(job) {
        const words = this.filter.value.toLowerCase().split(/\s+/)
            .filter(Boolean);
        const text = [job.id, job.name, job.user, job.state, job.reason,
                      job.device, job.dtype].join(' ').toLowerCase();
        return words.every((w) => text.includes(w));
    }

    // Running first; the queue as it will be served; the latest end first.
    arrange() {
        const list = [...this.rows.values()].filter((r) =>
            this.matches(r.job) && (this.finished || !isFinal(r.job.state) ||
                                    recently(r.job)));
        list.sort((a, b) => compare(a.job, b.job));
        const visible = list.slice(0, this.most);
        const nodes = visible.map((r) => r.node);
        if (nodes.length !== this.body.children.length ||
            nodes.some((n, i) => n !== this.body.children[i]))
            this.body.replaceChildren(...nodes);
        show(this.more, list.length > visible.length);
        this.tell(list.length);
        this.showDevices();
    }

    tell(n) {
        const count = {};
        for (const {job} of this.rows.values())
            count[job.state] = (count[job.state] ?? 0) + 1;
        const live = Object.entries(count).filter(([s]) => !isFinal(s));
        setText(this.summary, live.length
            ? live.map(([s, k]) => `${k} ${s}`).join(', ')
            : 'nothing runs, nothing waits');
        show(this.empty, n === 0);
        setText(this.empty, this.filter.value
            ? 'No job matches the filter.'
            : 'No jobs here: submit one, or show finished ones, too.');
    }
}

function eventText({kind, text}) {
    if (!text || text.startsWith(kind))
        return text || kind;
    return `${kind}: ${text}`;
}

// What has just ended stays in sight for a while.
function recently(job) {
    return Date.now() - job.end_us / 1000 < 10 * 60 * 1000;
}

function compare(a, b) {
    const r = rank(a.state) - rank(b.state);
    if (r)
        return r;
    if (a.state === 'queued')
        return b.priority - a.priority || a.id - b.id;
    return isFinal(a.state) ? b.end_us - a.end_us || b.id - a.id : a.id - b.id;
}
