// SPDX-License-Identifier: Apache-2.0
// One job: its numbers, its curves, what happened to it, and the buttons. The
// curve comes first and everything else after it; what changes is asked for
// again when the job says that it has changed.
import * as api from './api.js';
import {Charts, rowWords} from './charts.js';
import {openOrder, whyNot} from './dialogs.js';
import {el, setText, setTitle, show, throttle, debounce} from './dom.js';
import {duration, int, known, num, percent, plain, real, scale, when,
        whenExactly} from './format.js';
import {History} from './history.js';
import {progressText} from './jobs.js';
import {Lineage} from './lineage.js';
import {Logs} from './logs.js';
import {openRollback} from './rollback.js';
import {Checkpoints, Evaluations, Incidents} from './story.js';
import {isFinal, setState, stateBadge} from './words.js';

const MOST = 1000;       // of a list, in one go
const MOST_LONG = 20000; // of a list that is asked for once
const MOST_SKIPS = 2000; // drawn one by one
const AGAIN = 100;       // incidents that are asked for again

// ---- numbers ---------------------------------------------------------------

const epoch = (j) => j.iterations_per_epoch
    ? real(j.iteration / j.iterations_per_epoch, 3) : '';
const some = (j, f) => j.iteration ? f : '';

// name, what; '' is left out.
const numbers = [
    ['iteration', (j) => progressText(j)],
    ['updates + skips', (j) => `${int(j.updates)} + ${int(j.skips)}`],
    ['epoch', epoch],
    ['left', (j) => j.state === 'running' ? duration(j.eta_s) : ''],
    ['loss', (j) => some(j, real(j.loss))],
    ['validation loss', (j) => known(j.validation_loss)],
    ['accuracy', (j) => percent(j.accuracy)],
    ['best accuracy', (j) => percent(j.best_accuracy)],
    ['loss scale', (j) => some(j, scale(j.scale))],
    ['learning rate', (j) => some(j, known(j.lr))],
    ['gradient norm', (j) => some(j, real(j.grad_norm))],
    ['iterations/s', (j) => j.state === 'running'
        ? known(j.iterations_per_s, 3) : ''],
    ['dtype', (j) => plain(j.dtype)],
    ['device', (j) => plain(j.device)],
    ['attempt', (j) => j.attempt ? String(j.attempt) : ''],
    ['rollbacks', (j) => j.rollbacks ? `${j.rollbacks}` +
        `${j.guard_rollbacks ? ` (${j.guard_rollbacks} by guards)` : ''}` : ''],
    ['last checkpoint', (j) => j.checkpoint
        ? int(j.checkpoint_iteration) : ''],
    ['perplexity', (j) => known(j.perplexity)],
    ['submitted', (j) => `${when(j.submit_us)}, ${plain(j.user)}`],
    ['started', (j) => when(j.start_us)],
    ['ended', (j) => when(j.end_us)],
];
const NOTHING = '\u2013';

class Numbers {
    constructor() {
        this.cells = numbers.map(([name]) => {
            const value = el('dd');
            const node = el('div', {'data-number': name},
                            el('dt', {text: name}), value);
            return {node, value};
        });
        this.node = el('dl', {class: 'numbers'},
                       this.cells.map((c) => c.node));
    }

    update(job) {
        numbers.forEach(([name, text], i) => {
            const value = text(job), cell = this.cells[i];
            show(cell.node, value !== '' && value !== NOTHING);
            setText(cell.value, value);
            if (name === 'submitted')
                setTitle(cell.value, whenExactly(job.submit_us));
        });
    }
}

// ---- the top ---------------------------------------------------------------

const orders = [
    ['checkpoint', 'checkpoint\u2026'], ['pause', 'pause\u2026'],
    ['resume', 'resume\u2026'], ['rollback', 'roll back\u2026'],
    ['cancel', 'cancel\u2026'],
];

class Top {
    constructor(page) {
        this.page = page;
        this.badge = stateBadge();
        this.title = el('h1');
        this.reason = el('p', {class: 'reason'});
        this.policy = el('p', {class: 'policy', hidden: true});
        this.why = el('p', {class: 'hint'});
        this.bar = el('progress', {max: 1, 'aria-label': 'progress'});
        this.numbers = new Numbers();
        this.buttons = orders.map(([name, text]) => el('button', {
            type: 'button', text, 'data-order': name,
            class: name === 'cancel' ? 'danger' : null,
            onclick: () => page.order(name)}));
        this.state = el('div', {class: 'row', role: 'status'}, this.badge);
        this.node = el('header', {class: 'job-top'},
            el('div', {class: 'bar'}, this.title, this.state,
               el('span', {class: 'grow'}),
               el('div', {class: 'row orders'}, this.buttons)),
            this.why, this.reason, this.policy, this.bar, this.numbers.node);
    }

    update(job) {
        setText(this.title, `${job.id} ${plain(job.name)}`);
        setState(this.badge, job.state);
        setText(this.reason, plain(job.reason));
        setText(this.policy, plain(
            `policy changed on the way${job.difference ? ': ' : ''}` +
            `${job.difference}`));
        show(this.policy, job.policy_changed || job.difference !== '');
        show(this.bar, job.total_iterations > 0);
        this.bar.value = job.total_iterations > 0
            ? Math.min(1, job.iteration / job.total_iterations) : 0;
        this.numbers.update(job);
        this.updateButtons(job);
    }

    updateButtons(job) {
        const scope = this.page.app.whyNotSubmit();
        setText(this.why, scope);
        for (const button of this.buttons) {
            const name = button.dataset.order;
            const why = this.page.whyNot(name);
            setTitle(button, why);
            if (why)
                button.setAttribute('aria-disabled', 'true');
            else
                button.removeAttribute('aria-disabled');
            // Of pause and resume the one that can be meant.
            if (name === 'resume' || name === 'pause')
                show(button, (name === 'resume') === (job.state === 'paused'));
        }
    }
}

// ---- what stands over the charts -------------------------------------------

class Tools {
    constructor(page) {
        this.row = el('span', {class: 'row-words number',
                               'aria-live': 'off'});
        const button = (text, label, act) => el('button', {
            type: 'button', class: 'quiet', text, 'aria-label': label,
            title: label, onclick: act});
        const box = (id, text, act) => {
            const input = el('input', {type: 'checkbox', id, onchange: () =>
                act(input.checked)});
            return el('label', {for: id}, input, ` ${text}`);
        };
        this.reset = button('whole', 'show the whole run (0)',
                            () => page.charts.reset());
        this.reset.disabled = true;
        this.left = box('show-left', 'abandoned lines',
                        (on) => page.showLeft(on));
        this.node = el('div', {class: 'tools'}, this.row,
            el('span', {class: 'grow'}),
            button('+', 'zoom in (+)', () => page.charts.zoomBy(0.5)),
            button('\u2212', 'zoom out (-)', () => page.charts.zoomBy(2)),
            this.reset,
            box('log-y', 'log axes', (on) => page.charts.setLog(on)),
            this.left);
    }
}

// ---- the page --------------------------------------------------------------

export class JobPage {
    constructor(app, main, id) {
        this.app = app;
        this.main = main;
        this.id = id;
        this.name = 'job';
        this.title = `traind: job ${id}`;
        this.path = `jobs/${id}`;
        this.job = null;
        this.abort = new AbortController();
        this.history = new History(id);
        this.guards = [];
        this.gap = '';
        this.moreIncidents = false;
        this.data = {
            history: this.history, rows: [], attempts: [], rollbacks: [],
            evaluations: [], skips: [], skipsCut: false, incidents: [],
            checkpoints: [], showLeft: false,
        };
        this.wanted = new Set();
        this.flush = throttle(() => this.fetchWanted(), 1000);
        this.follow = throttle(() => this.append(), 1000);
        this.resized = debounce(() => this.showLineage(), 200);
    }

    enter() {
        this.top = new Top(this);
        this.tools = new Tools(this);
        this.plots = el('div', {class: 'plots', tabindex: 0, role: 'group',
                                'aria-label': 'charts: plus and minus zoom, ' +
                                'arrows move, 0 shows the whole run'});
        const why = () => this.whyNot('rollback');
        const on = {
            whyNot: why,
            cure: (i) => this.goBack({cure: i.id}),
            back: (c) => this.goBack({checkpoint: c.id}),
        };
        this.incidents = new Incidents(on);
        this.checkpoints = new Checkpoints(on);
        this.evaluations = new Evaluations();
        this.lineage = new Lineage();
        this.logs = new Logs(this.id);
        this.note = el('p', {class: 'empty', hidden: true});
        this.columns = el('div', {class: 'columns'},
            el('div', {class: 'curves'}, this.tools.node, this.plots),
            el('div', {class: 'story'}, this.incidents.node,
               this.lineage.node),
            el('div', {class: 'tables'}, this.checkpoints.node,
               this.evaluations.node, this.logs.node));
        this.main.replaceChildren(this.top.node, this.note, this.columns);
        addEventListener('resize', this.resized);
        if (this.app.jobs.has(this.id))
            this.take(this.app.jobs.get(this.id));
        this.load();
    }

    leave() {
        this.gone = true;
        this.abort.abort();
        this.flush.cancel();
        this.follow.cancel();
        this.resized.cancel();
        removeEventListener('resize', this.resized);
        this.logs.leave();
        this.charts?.destroy();
    }

    get signal() {
        return this.abort.signal;
    }

    fail(problem) {
        if (problem.name === 'AbortError' || problem.status === 401)
            return;
        if (problem.status === 404 || problem.status === 403) {
            setText(this.note, plain(problem.message));
            show(this.note, true);
            show(this.top.node, this.job !== null);
            show(this.columns, this.job !== null);
        } else {
            this.app.toast(problem.message, 'bad');
        }
    }

    // ---- loading -----------------------------------------------------------

    // The curve first: everything else waits until it is painted.
    async load() {
        const reading = el('p', {class: 'empty', role: 'status',
                                 text: 'reading the history\u2026'});
        performance.mark('traind:job');
        this.plots.append(reading);
        try {
            this.charts = new Charts(this.plots, this.data, {
                zoom: (...window) => this.zoom(...window),
                window: (zoomed) => {
                    this.tools.reset.disabled = !zoomed;
                },
                row: (row) => setText(this.tools.row, rowWords(row)),
                mark: (mark) => this.reveal(mark),
            });
            const [job] = await Promise.all([
                api.get(this.path, null, {signal: this.signal}),
                this.history.load(this.charts.width, this.signal)]);
            this.data.rows = this.history.rows();
            this.take(job);
            reading.remove();
            await this.charts.make();
            await this.fetchAll();
            performance.mark('traind:ready');
            this.follow();
        } catch (problem) {
            this.fail(problem);
        }
    }

    async fetchAll() {
        const lists = ['skips', 'incidents', 'evaluations', 'rollbacks',
                       'checkpoints', 'guards'];
        await Promise.all(lists.map((name) => this.fetch(name)));
        this.showAll();
        // Their mean times are worked out from every row: the slowest one.
        await this.fetch('attempts');
        this.showAll();
    }

    async fetch(name) {
        const options = {signal: this.signal};
        if (name === 'attempts') {
            const page = await api.get(`${this.path}/attempts`, null, options);
            this.data.attempts = page.items;
            return;
        }
        if (name === 'skips') {
            await this.fetchSkips();
            return;
        }
        const fetchers = {incidents: 'fetchIncidents',
                          evaluations: 'fetchEvaluations',
                          checkpoints: 'fetchCheckpoints'};
        if (fetchers[name]) {
            await this[fetchers[name]](options);
            return;
        }
        const {items} = await api.list(`${this.path}/${name}`,
                                       {all_lines: true}, MOST, options);
        if (name === 'guards')
            this.guards = items;
        else
            this.data[name] = items;
    }

    // All, once; then those that the live line has got since.
    async fetchEvaluations(options) {
        const {data} = this, last = data.evaluations.findLast((e) => e.live);
        const {items} = await api.list(
            `${this.path}/evaluations`,
            last ? {after_row: last.row} : {all_lines: true}, MOST_LONG,
            options);
        data.evaluations = last ? [...data.evaluations, ...items] : items;
    }

    // All, once; then those whose state can have changed: from the oldest that
    // is kept, and the best one, which may be far back.
    async fetchCheckpoints(options) {
        const {data} = this, path = `${this.path}/checkpoints`;
        const kept = data.checkpoints.filter((c) => c.state === 'good');
        const best = kept.find((c) => c.best);
        const from = Math.min(...kept.filter((c) => c !== best)
            .map((c) => c.iteration));
        const known = new Map();
        const ask = async (params) => {
            const {items} = await api.list(path, {all_lines: true, ...params},
                                           MOST_LONG, options);
            for (const c of items)
                known.set(c.id, c);
        };
        if (Number.isFinite(from)) {
            for (const c of data.checkpoints)
                known.set(c.id, c);
            await ask({from});
            if (best && best.iteration < from)
                await ask({from: best.iteration, to: best.iteration});
        } else {
            await ask({});
        }
        data.checkpoints = [...known.values()].sort((a, b) => a.id - b.id);
    }

    // Those of the window that is shown, or of the whole, from its beginning;
    // later on only what is new. anew: another window.
    async fetchSkips(anew = this.data.skips.length === 0) {
        const {data} = this;
        if (data.skipsCut && !anew)
            return;
        const [from, to] = this.charts.zoomed ? this.charts.window : [0, 0];
        const {items, more} = await api.list(`${this.path}/skips`, {
            from: Math.floor(from), to: Math.ceil(to),
            after_row: anew ? undefined : data.skips.at(-1).row,
        }, MOST, {signal: this.signal, keep: false});
        data.skips = anew ? items : [...data.skips, ...items];
        data.skipsCut = more || data.skips.length > MOST_SKIPS;
    }

    // All of them; later on the last ones again, for they may have been
    // diagnosed since. Of very many the first and the last.
    async fetchIncidents(options) {
        const path = `${this.path}/incidents`, {data} = this;
        const live = data.incidents.filter((i) => i.live);
        const from = live.length > AGAIN ? live.at(-AGAIN).iteration : 0;
        if (!this.moreIncidents) {
            const {items, more} = await api.list(
                path, {all_lines: true, from}, MOST, options);
            data.incidents = [...data.incidents.filter(
                (i) => i.iteration < from), ...items];
            this.moreIncidents = more || data.incidents.length > MOST;
        }
        if (!this.moreIncidents)
            return;
        const {iteration, skips} = this.job;
        const near = Math.floor(iteration - AGAIN * iteration / (skips || 1));
        const {items} = await api.get(
            path, {all_lines: true, from: Math.max(1, near)}, options);
        const first = data.incidents.slice(0, MOST);
        const last = items.filter((i) => i.id > (first.at(-1)?.id ?? 0));
        data.incidents = [...first, ...last];
        this.gap = last.length && last[0].iteration > first.at(-1).iteration + 1
            ? `Between iterations ${int(first.at(-1).iteration)} and ` +
              `${int(last[0].iteration)} there are more: ` +
              `trainctl incidents ${this.id}` : '';
    }

    want(...names) {
        for (const name of names)
            this.wanted.add(name);
        this.flush();
    }

    async fetchWanted() {
        const names = [...this.wanted];
        this.wanted.clear();
        try {
            await Promise.all(names.map((name) => this.fetch(name)));
            this.showAll();
        } catch (problem) {
            this.fail(problem);
        }
    }

    // ---- showing -----------------------------------------------------------

    judge() {
        const verdicts = new Map(this.data.incidents.map(
            (i) => [`${i.attempt}/${i.iteration}`, i]));
        for (const skip of this.data.skips) {
            const incident =
                verdicts.get(`${skip.attempt}/${skip.iteration}`);
            skip.verdict = incident?.verdict ?? '';
            skip.incident = incident?.id;
        }
    }

    showAll() {
        const {data} = this;
        this.judge();
        this.incidents.update(data.incidents, this.gap);
        this.checkpoints.update(data.checkpoints);
        this.evaluations.update(data.evaluations);
        this.logs.update(this.job, data.attempts);
        this.showLineage();
        this.charts?.redraw();
        this.awaitDiagnosis();
    }

    // A skip is told before it is diagnosed, which may take a while.
    awaitDiagnosis() {
        const last = this.data.incidents.at(-1);
        if (!last || last.replayed || isFinal(this.job.state))
            return;
        this.patience = last.id === this.awaited ? this.patience - 1 : 5;
        this.awaited = last.id;
        if (this.patience > 0)
            setTimeout(() => this.gone || this.want('incidents'), 3000);
    }

    showLineage() {
        if (this.job)
            this.lineage.update(this.job, {...this.data,
                                           guards: this.guards});
    }

    take(job) {
        const before = this.job;
        this.job = job;
        this.title = `traind: ${job.id} ${plain(job.name)}`;
        document.title = this.title;
        this.top.update(job);
        if (before && this.charts?.made)
            this.react(before, job);
    }

    // What another number means for what is shown.
    react(before, job) {
        if (job.rollbacks !== before.rollbacks ||
            job.iteration < before.iteration) {
            this.reload();
            return;
        }
        if (job.iteration > this.history.last)
            this.follow();
        if (job.skips !== before.skips || job.verdict !== before.verdict)
            this.want('skips', 'incidents');
        if (job.checkpoint !== before.checkpoint)
            this.want('checkpoints');
        if (num(job.validation_loss) !== num(before.validation_loss))
            this.want('evaluations');
        if (job.attempt !== before.attempt || job.state !== before.state)
            this.want('attempts', 'rollbacks', 'guards', 'checkpoints',
                      'evaluations', 'incidents', 'skips');
    }

    onJob(job) {
        if (job.id === this.id)
            this.take(job);
    }

    onEvent(event) {
        if (event.job === this.id && this.charts?.made)
            this.want('rollbacks', 'guards', 'checkpoints', 'attempts');
    }

    // The stream has begun anew: much may have happened.
    async refresh() {
        if (!this.charts?.made)
            return;
        try {
            this.take(await api.get(this.path, null, {signal: this.signal}));
            this.follow();
        } catch (problem) {
            this.fail(problem);
        }
    }

    // ---- the curve ---------------------------------------------------------

    // Another line lives now.
    reload = throttle(async () => {
        try {
            await this.history.load(this.charts.width, this.signal);
            this.data.rows = this.history.rows();
            this.charts.reset();
            for (const name of ['skips', 'incidents', 'evaluations',
                                'checkpoints'])
                this.data[name] = [];
            this.data.skipsCut = this.moreIncidents = false;
            await this.fetchAll();
            await this.loadLeft();
        } catch (problem) {
            this.fail(problem);
        }
    }, 500);

    async append() {
        if (this.appending || this.history.last >= this.job.iteration)
            return;
        this.appending = true;
        try {
            await this.history.append(this.job.iteration, this.signal);
            this.data.rows = this.history.rows();
            this.charts.update();
        } catch (problem) {
            this.fail(problem);
        } finally {
            this.appending = false;
        }
        // The last rows may still be on their way into the store.
        if (this.history.last < this.job.iteration && this.late < 5) {
            this.late++;
            this.follow();
        } else {
            this.late = 0;
        }
    }

    late = 0;

    async zoom(zoomed, from, to, width) {
        this.zooming?.abort();
        this.zooming = new AbortController();
        const signal = AbortSignal.any([this.signal, this.zooming.signal]);
        try {
            if (!zoomed)
                this.history.coarse();
            else
                await this.history.zoom(from, to, width, signal);
            this.data.rows = this.history.rows();
            if (this.data.skipsCut || zoomed !== this.skipsZoomed) {
                this.skipsZoomed = zoomed;
                await this.fetchSkips(true);
                this.judge();
            }
            await this.loadLeft();
            this.charts.redraw();
        } catch (problem) {
            this.fail(problem);
        }
    }

    async showLeft(on) {
        this.data.showLeft = on;
        try {
            await this.loadLeft();
            this.charts.redraw();
        } catch (problem) {
            this.fail(problem);
        }
    }

    // Those of the window that is shown.
    async loadLeft() {
        if (!this.data.showLeft)
            return;
        const [from, to] = this.charts.window;
        const all = await this.history.loadLeft(
            this.data.rollbacks, Math.floor(from), Math.ceil(to), this.signal);
        if (!all)
            this.app.toast('Some abandoned lines are too long to be told ' +
                           'apart here: zoom in.');
    }

    reveal(mark) {
        const id = mark.trigger === undefined ? mark.incident : mark.id;
        if (id === undefined)
            this.app.toast('This skip has no incident: not every one is run ' +
                           'again when they come in a row.');
        else
            this.incidents.reveal(id);
    }

    // ---- orders ------------------------------------------------------------

    whyNot(order) {
        if (!this.job)
            return 'the job is not known yet';
        return this.app.whyNotSubmit() ||
            whyNot(order, this.job, isFinal(this.job.state));
    }

    order(name) {
        const why = this.whyNot(name);
        if (why)
            this.app.toast(why);
        else if (name === 'rollback')
            this.goBack({});
        else
            openOrder(this.app, this.job, name);
    }

    goBack(preset) {
        const why = this.whyNot('rollback');
        if (why)
            this.app.toast(why);
        else
            openRollback(this.app, this.job, this.data, preset);
    }
}
