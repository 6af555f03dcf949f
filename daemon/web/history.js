// SPDX-License-Identifier: Apache-2.0
// A job's curve as far as it is known here: the whole of it in about as many
// points as a screen has columns, one window of it finer, and what has been
// trained since. The daemon thins; nothing here ever holds all rows.
import * as api from './api.js';
import {num} from './format.js';

const LINES = 12;          // abandoned lines shown: the latest
const MOST_POINTS = 10000; // that the daemon gives in one answer

function read(row) {
    return {
        row: row.row, x: row.iteration, updates: row.updates, attempt: row.attempt,
        live: row.live, n: Math.max(1, row.n), skips: row.n_skipped,
        loss: num(row.loss), lo: num(row.loss_min), hi: num(row.loss_max),
        scale: num(row.scale), lr: num(row.lr), grad: num(row.grad_norm),
        rate: row.step_us > 0 ? row.samples / row.step_us * 1e6 : NaN,
        t: row.t_us,
    };
}

// The first row at or after x.
export function find(rows, x) {
    let low = 0, high = rows.length;
    while (low < high) {
        const mid = (low + high) >> 1;
        if (rows[mid].x < x)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// The row that stands for x, or is nearest to it.
export function nearest(rows, x) {
    const i = Math.min(find(rows, x), rows.length - 1);
    if (i > 0 && x - rows[i - 1].x < rows[i].x - x && rows[i].n === 1)
        return rows[i - 1];
    return rows[i];
}

// Means of so many iterations each.
function thin(rows, size) {
    const out = [];
    const fields = ['loss', 'grad', 'rate'];
    for (let i = 0; i < rows.length;) {
        const end = find(rows, rows[i].x + size);
        const group = rows.slice(i, end);
        const row = {...group.at(-1), n: size};
        for (const field of fields) {
            const finite = group.map((r) => r[field]).filter(Number.isFinite);
            row[field] = finite.reduce((a, b) => a + b, 0) / finite.length;
        }
        row.lo = row.hi = row.loss;
        out.push(row);
        i = end;
    }
    return out;
}

export class History {
    constructor(job) {
        this.path = `jobs/${job}/metrics`;
        this.whole = [];  // rows in order
        this.fine = null; // {from, to, rows}
        this.lines = [];  // rows of abandoned lines, one list an attempt
        this.points = 800;
    }

    get first() {
        return this.whole.length ? this.whole[0].x - this.whole[0].n + 1 : 1;
    }

    get last() {
        return this.whole.length ? this.whole.at(-1).x : 0;
    }

    // Iterations that a point stands for.
    get group() {
        return this.whole.length ? this.whole[0].n : 1;
    }

    async ask(params, signal) {
        const page = await api.get(this.path, params, {signal, keep: false});
        return page.items.map(read);
    }

    async load(points, signal) {
        this.points = points;
        const rows = await this.ask({max_points: points}, signal);
        this.whole = rows;
        this.fine = null;
    }

    // What came since. The last point may stand for fewer iterations than it
    // will: it is asked for again. iteration: how far the job is.
    async append(iteration, signal) {
        const n = this.whole.length;
        if (n === 0 || n > 2 * this.points) {
            await this.load(this.points, signal);
            return;
        }
        // Whole groups of the same size; what is beyond them comes later.
        const from = n > 1 ? this.whole[n - 2].x + 1 : 1;
        const points = Math.max(1, Math.ceil((iteration - from + 1) /
                                             this.group));
        const rows = await this.ask({
            from, to: from + points * this.group - 1, max_points: points,
        }, signal);
        this.whole.length = find(this.whole, from);
        this.whole.push(...rows);
    }

    // A window of it, finer; false: it is as fine as it gets.
    async zoom(from, to, points, signal) {
        const density = this.rows().slice(find(this.rows(), from),
                                          find(this.rows(), to) + 1);
        if (density.every((r) => r.n === 1))
            return false;
        const margin = (to - from) / 4;
        const a = Math.max(1, Math.floor(from - margin));
        const b = Math.ceil(to + margin);
        const rows = await this.ask(
            {from: a, to: b, max_points: Math.ceil(1.5 * points)}, signal);
        this.fine = {from: a, to: b, rows};
        return true;
    }

    coarse() {
        this.fine = null;
    }

    rows() {
        if (!this.fine)
            return this.whole;
        const {from, to, rows} = this.fine;
        const end = rows.length ? Math.max(to, rows.at(-1).x) : to;
        return [...this.whole.slice(0, find(this.whole, from)), ...rows,
                ...this.whole.slice(find(this.whole, end + 1))];
    }

    // Lines left behind by rollbacks, one list of rows for each attempt, as
    // far as they lie between from and to. Only where each iteration is told
    // by itself: a point of several mixes the lines. false: some are too long.
    async loadLeft(rollbacks, from, to, signal) {
        const spans = rollbacks.slice(-LINES).map(
            (r) => [Math.max(r.to_iteration + 1, from),
                    Math.min(r.from_iteration, to)])
            .filter(([a, b]) => a <= b);
        const lists = await Promise.all(spans.map(([a, b]) => this.ask(
            {all_lines: true, from: a, to: b, max_points: MOST_POINTS},
            signal)));
        const good = lists.filter((rows) => rows.every((r) => r.n === 1));
        const lines = new Map(), seen = new Set();
        for (const row of good.flat()) {
            if (row.live || seen.has(row.row))
                continue;
            seen.add(row.row);
            if (!lines.has(row.attempt))
                lines.set(row.attempt, []);
            lines.get(row.attempt).push(row);
        }
        this.lines = [...lines.values()].map(
            (line) => line.sort((a, b) => a.x - b.x));
        return good.length === lists.length;
    }

    // The same, as coarse as the curve beside them.
    get left() {
        const size = this.fine ? 1 : this.group;
        return size === 1 ? this.lines
            : this.lines.map((line) => thin(line, size));
    }
}
