// SPDX-License-Identifier: Apache-2.0
// Five charts over the iterations, zoomed and moved as one. dygraphs draws the
// curves, marks.js the rest. The first one is drawn before the others are made.
import {el, setText, debounce} from './dom.js';
import {int, known, plain, power, real, scale, when} from './format.js';
import {nearest} from './history.js';
import * as marks from './marks.js';
import {colour, verdictOf} from './words.js';

const kinds = [
    {
        name: 'loss', field: 'loss', title: 'loss', height: 220, bars: true,
        below: [marks.paintAttempts, marks.paintLeft],
        above: [marks.paintCheckpoints, marks.paintEvaluations,
                marks.paintNonFinite, marks.paintIncidents],
    },
    {
        name: 'scale', field: 'scale', title: 'loss scale', height: 150,
        log: true, steps: true,
        below: [marks.paintAttempts, marks.paintLeft],
        above: [marks.paintSkips],
    },
    {
        name: 'lr', field: 'lr', title: 'learning rate', height: 100,
        zero: true, below: [marks.paintAttempts, marks.paintLeft], above: [],
    },
    {
        name: 'grad', field: 'grad', title: 'gradient norm', height: 120,
        below: [marks.paintAttempts, marks.paintLeft],
        above: [marks.paintNonFinite],
    },
    {
        name: 'rate', field: 'rate', title: 'samples/s', height: 100,
        zero: true, below: [marks.paintAttempts, marks.paintLeft], above: [],
    },
];

const AXIS = 54; // width of what stands left of each chart
const REACH = 7; // a mark is hit this many pixels from its middle

// ---- ranges ----------------------------------------------------------------

// Smallest and largest of what is seen between a and b.
function extremes(kind, data, a, b, log) {
    let low = Infinity, high = -Infinity;
    const take = (v) => {
        if (!Number.isFinite(v) || (log && v <= 0))
            return;
        low = Math.min(low, v);
        high = Math.max(high, v);
    };
    const each = (rows) => {
        for (const row of rows) {
            if (row.x < a || row.x - row.n >= b)
                continue;
            take(row[kind.field]);
            if (kind.bars) {
                take(row.lo);
                take(row.hi);
            }
        }
    };
    each(data.rows);
    if (data.showLeft)
        data.history.left.forEach(each);
    if (kind.name === 'loss')
        for (const e of data.evaluations)
            if (e.iteration >= a && e.iteration <= b && e.live)
                take(Number(e.loss));
    if (kind.name === 'scale')
        for (const s of data.skips)
            if (s.iteration >= a && s.iteration <= b) {
                take(Number(s.before));
                take(Number(s.after));
            }
    return low <= high ? [low, high] : null;
}

function valueRange(kind, data, [a, b], log) {
    const seen = extremes(kind, data, a, b, log);
    if (!seen)
        return log ? [1, 10] : [0, 1];
    let [low, high] = seen;
    if (log) {
        const pad = Math.max(kind.name === 'scale' ? 2 : 1.2,
                             (high / low) ** 0.08);
        return [low / pad, high * pad];
    }
    if (kind.zero)
        low = Math.min(0, low);
    const pad = (high - low) * 0.07 || Math.abs(high) * 0.1 || 1;
    return [kind.zero && low >= 0 ? 0 : low - pad, high + pad];
}

// Powers of two for the loss scale, few enough to be read.
function powerTicks(low, high, pixels) {
    const from = Math.ceil(Math.log2(low)), to = Math.floor(Math.log2(high));
    const step = Math.max(1, Math.ceil((to - from + 1) * 22 / pixels));
    const ticks = [];
    for (let k = Math.ceil(from / step) * step; k <= to; k += step)
        ticks.push({v: 2 ** k, label: power(k)});
    return ticks;
}

// 1, 2, 5 of each decade, or decades alone.
function decadeTicks(low, high, pixels) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const room = pixels / 20, step = Math.max(1, Math.ceil((to - from) / room));
    const parts = (to - from) * 3 <= room * 1.6 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let k = from; k <= to; k += step)
        for (const p of parts) {
            const v = p * 10 ** k;
            if (v >= low && v <= high)
                ticks.push({v, label: tick(v)});
        }
    return ticks;
}

// Axis labels: no more digits than there are.
function tick(v) {
    if (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e5))
        return v.toExponential(1).replace('.0e', 'e').replace('e+', 'e');
    return String(Number(v.toPrecision(4)));
}

// ---- one chart -------------------------------------------------------------

class Chart {
    constructor(owner, kind) {
        this.owner = owner;
        this.kind = kind;
        this.log = kind.log ?? false;
        this.readout = el('span', {class: 'readout'});
        this.plot = el('div', {class: `plot plot-${kind.name}`});
        this.hair = el('div', {class: 'hair', hidden: true});
        this.node = el('figure', {class: 'chart', 'data-chart': kind.name},
            el('figcaption', {}, el('b', {text: kind.title}), this.readout),
            el('div', {class: 'stack'}, this.plot, this.hair));
        this.plot.style.height = `${kind.height}px`;
    }

    table(rows) {
        const {field, bars} = this.kind;
        const ok = (v) => (Number.isFinite(v) && (!this.log || v > 0) ? v
            : NaN);
        if (rows.length === 0)
            return [[0, bars ? [NaN, NaN, NaN] : NaN]];
        return rows.map((r) => {
            const v = ok(r[field]);
            if (!bars)
                return [r.x, v];
            const low = ok(r.lo), high = ok(r.hi);
            return [r.x, [Number.isNaN(low) ? v : low, v,
                          Number.isNaN(high) ? v : high]];
        });
    }

    range() {
        return valueRange(this.kind, this.owner.data, this.owner.window,
                          this.log);
    }

    ticker = (a, b, pixels, opts, g, values) => {
        if (this.kind.name === 'scale')
            return powerTicks(a, b, pixels);
        if (this.log && b / a > 3)
            return decadeTicks(a, b, pixels);
        return Dygraph.numericLinearTicks(a, b, pixels, opts, g, values);
    };

    colours() {
        return {
            colors: [colour('--curve')], gridLineColor: colour('--grid'),
            axisLineColor: colour('--line'),
        };
    }

    options() {
        this.asked = this.range();
        return {
            labels: ['iteration', this.kind.title], ...this.colours(),
            customBars: this.kind.bars ?? false,
            stepPlot: this.kind.steps ?? false, logscale: this.log,
            dateWindow: this.owner.window, valueRange: this.asked,
            strokeWidth: 1.3, fillAlpha: 0.22, highlightCircleSize: 3,
            rightGap: 8, xRangePad: 0, gridLineWidth: 0.5,
            plugins: [this.painter()],
            axes: {
                x: {axisLabelFormatter: (v) => Number.isInteger(v) ? int(v)
                        : '', pixelsPerLabel: 65, axisLabelWidth: 62},
                y: {axisLabelWidth: AXIS, axisLabelFormatter: tick,
                    ticker: this.ticker, pixelsPerLabel: 26,
                    independentTicks: true},
            },
            interactionModel: this.owner.model,
            drawCallback: (g, first) => this.owner.onDraw(this, g, first),
            highlightCallback: (event, x) => this.owner.onHover(event, x, this),
            unhighlightCallback: () => this.owner.onLeave(),
            clickCallback: (event) => this.owner.onClick(event, this),
        };
    }

    // dygraphs tells a plugin before and after it draws.
    painter() {
        const paint = (list) => (e) => {
            if (this.owner.gone)
                return;
            const ctx = e.drawingContext;
            this.g = e.dygraph;
            this.area = e.dygraph.getArea();
            ctx.save();
            ctx.beginPath();
            ctx.rect(this.area.x, this.area.y, this.area.w,
                     this.area.h);
            ctx.clip();
            for (const painter of list)
                painter(ctx, this, this.owner.data);
            ctx.restore();
        };
        return {
            activate: () => ({
                willDrawChart: paint(this.kind.below),
                didDrawChart: paint(this.kind.above),
            }),
            destroy() {},
        };
    }

    make() {
        this.g = new Dygraph(this.plot, this.table(this.owner.data.rows),
                             this.options());
    }

    update() {
        const change = {file: this.table(this.owner.data.rows),
                        dateWindow: this.owner.window, logscale: this.log};
        if (!this.held)
            change.valueRange = this.asked = this.range();
        this.g.updateOptions(change);
    }

    // The hair stands where the iteration is.
    point(x) {
        if (x === null) {
            this.hair.hidden = true;
            return;
        }
        this.hair.hidden = false;
        this.hair.style.transform =
            `translateX(${Math.round(this.g.toDomXCoord(x))}px)`;
    }
}

function alike(a, b) {
    return Math.abs(a - b) <= 1e-6 * Math.max(Math.abs(a), Math.abs(b));
}

// ---- all of them -----------------------------------------------------------

function bare() {
    // No legend and no titles of dygraphs: the page has its own.
    Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];
}

export class Charts {
    // data: what marks.js describes. on: {zoom(from, to, width), mark(incident)}
    constructor(node, data, on) {
        this.node = node;
        this.data = data;
        this.on = on;
        this.window = [0, 1];
        this.zoomed = false;
        this.gone = false;
        this.model = this.makeModel();
        this.askFiner = debounce(() => this.askWindow(), 120);
        this.list = kinds.map((kind) => new Chart(this, kind));
        node.append(...this.list.map((c) => c.node));
        node.addEventListener('keydown', (e) => this.onKey(e));
        this.recolour = () => this.list.forEach(
            (c) => c.g?.updateOptions(c.colours()));
        addEventListener('themechange', this.recolour);
    }

    get width() {
        return Math.max(200, Math.min(2000, this.node.clientWidth - AXIS));
    }

    // Paints the first; resolves once all are there.
    async make() {
        bare();
        this.window = this.full();
        this.list[0].make();
        performance.mark('traind:first-chart');
        for (const chart of this.list.slice(1)) {
            await new Promise((go) => requestAnimationFrame(go));
            if (this.gone)
                return;
            chart.make();
        }
        this.sync = Dygraph.synchronize(this.list.map((c) => c.g),
                                        {zoom: true, selection: true,
                                         range: false});
        this.made = true;
        this.describe();
        this.tell(null);
        performance.mark('traind:charts');
    }

    destroy() {
        this.gone = true;
        this.askFiner.cancel();
        removeEventListener('themechange', this.recolour);
        for (const chart of this.list)
            chart.g?.destroy();
    }

    full() {
        const {history} = this.data;
        const last = Math.max(history.last, history.first + 1);
        return [history.first, last];
    }

    // New data: the whole grows, and so does a window that ends at its end.
    update() {
        if (!this.made)
            return;
        const [, end] = this.window;
        const full = this.full();
        if (!this.zoomed) {
            this.window = full;
        } else if (this.last !== undefined && end >= this.last &&
                   full[1] > this.last) {
            this.window = this.window.map((v) => v + full[1] - this.last);
            this.askFiner();
        }
        this.last = full[1];
        this.redraw();
    }

    redraw() {
        if (!this.made)
            return;
        this.quiet = true;
        for (const chart of this.list)
            chart.update();
        this.quiet = false;
        this.describe();
        this.tell(this.at ?? null);
    }

    // What is drawn, for whoever looks at the page's elements.
    describe() {
        this.node.dataset.window = this.window.join(' ');
        this.node.dataset.last = this.data.history.last;
        this.node.dataset.covered =
            this.data.history.whole.reduce((sum, r) => sum + r.n, 0);
        for (const chart of this.list)
            chart.node.dataset.window = chart.g.xAxisRange().join(' ');
    }

    setLog(on) {
        for (const chart of this.list)
            if (chart.kind.name === 'loss' || chart.kind.name === 'grad')
                chart.log = on;
        this.redraw();
    }

    // ---- windows -----------------------------------------------------------

    setWindow(from, to) {
        const [first, last] = this.full();
        const span = Math.max(4, Math.min(to - from, last - first));
        const a = Math.max(first, Math.min(from, last - span));
        this.window = [a, Math.min(last, a + span)];
        this.settle();
        this.redraw();
    }

    settle() {
        const [first, last] = this.full();
        const [a, b] = this.window;
        this.zoomed = a > first + 0.5 || b < last - 0.5;
        if (!this.zoomed)
            this.window = [first, last];
        this.last = last;
        this.askFiner();
        this.on.window?.(this.zoomed, this.window);
    }

    reset() {
        for (const chart of this.list)
            chart.held = false;
        this.setWindow(...this.full());
    }

    zoomBy(factor) {
        const [a, b] = this.window;
        const middle = this.at ?? (a + b) / 2;
        this.setWindow(middle - (middle - a) * factor,
                       middle + (b - middle) * factor);
    }

    panBy(share) {
        const [a, b] = this.window;
        this.setWindow(a + (b - a) * share, b + (b - a) * share);
    }

    askWindow() {
        const [a, b] = this.window;
        this.on.zoom(this.zoomed, Math.floor(a), Math.ceil(b), this.width);
    }

    onKey(event) {
        if (event.altKey || event.ctrlKey || event.metaKey)
            return;
        const act = {
            '+': () => this.zoomBy(0.5), '=': () => this.zoomBy(0.5),
            '-': () => this.zoomBy(2), '0': () => this.reset(),
            Home: () => this.reset(),
            ArrowLeft: () => this.panBy(-0.25),
            ArrowRight: () => this.panBy(0.25),
        }[event.key];
        if (!act)
            return;
        event.preventDefault();
        act();
    }

    // Dragging zooms and shift moves, as dygraphs has it; a double click
    // resets all; one finger scrolls the page, two zoom.
    makeModel() {
        const model = Dygraph.defaultInteractionModel;
        const two = (f) => (event, g, context) => {
            if (event.touches.length > 1 || context.initialTouches?.length > 1)
                f(event, g, context);
        };
        return {
            ...model,
            dblclick: () => this.reset(),
            touchstart: two(model.touchstart),
            touchmove: two(model.touchmove),
            touchend: two(model.touchend),
        };
    }

    // After every draw, also when a person has zoomed or moved.
    onDraw(chart, g, first) {
        if (first || this.quiet || this.gone)
            return;
        const [low, high] = g.yAxisRange();
        const [a, b] = g.xAxisRange();
        const moved = Math.abs(a - this.window[0]) > 1e-6 ||
            Math.abs(b - this.window[1]) > 1e-6;
        if (moved) {
            this.window = [a, b];
            this.settle();
            requestAnimationFrame(() => this.gone || this.redraw());
        } else if (!alike(low, chart.asked[0]) ||
                   !alike(high, chart.asked[1])) {
            chart.held = true; // a person chose this range of values
        }
    }

    // ---- what is pointed at ------------------------------------------------

    onHover(event, x, chart) {
        this.at = x;
        for (const each of this.list)
            each.point(x);
        this.tell(x, this.hit(event, chart));
    }

    onLeave() {
        this.at = undefined;
        for (const chart of this.list)
            chart.point(null);
        this.tell(null);
    }

    onClick(event, chart) {
        const mark = this.hit(event, chart);
        if (mark)
            this.on.mark(mark);
    }

    // The skip or incident under the pointer.
    hit(event, chart) {
        const x = event?.offsetX;
        if (x === undefined || !chart.g)
            return null;
        const list = chart.kind.name === 'scale' ? this.data.skips
            : this.data.incidents.filter((i) => i.trigger !== 'skip');
        let best = null, distance = REACH;
        for (const mark of list) {
            const d = Math.abs(chart.g.toDomXCoord(mark.iteration) - x);
            if (d < distance) {
                distance = d;
                best = mark;
            }
        }
        return best;
    }

    tell(x, mark) {
        const {rows} = this.data;
        if (rows.length === 0)
            return;
        const row = x === null ? rows.at(-1) : nearest(rows, x);
        for (const chart of this.list)
            setText(chart.readout, this.words(chart, row, mark));
        this.on.row?.(row, x !== null);
    }

    words(chart, row, mark) {
        const {name} = chart.kind;
        if (name === 'loss')
            return this.lossWords(row);
        if (name === 'scale' && mark?.before !== undefined)
            return `skip at ${int(mark.iteration)}: ${scale(mark.before)} ` +
                `\u2192 ${scale(mark.after)}, ` +
                `${verdictOf(mark.verdict).name}`;
        return {scale, lr: real, grad: real, rate: (v) => known(v, 3)}[name](
            row[chart.kind.field]);
    }

    lossWords(row) {
        const parts = [real(row.loss)];
        if (row.n > 1)
            parts.push(`${real(row.lo)} \u2026 ${real(row.hi)}`);
        const e = this.data.evaluations.findLast(
            (v) => v.live && v.iteration <= row.x);
        if (e)
            parts.push(`validation ${real(e.loss)} at ${int(e.iteration)}`);
        return parts.join(', ');
    }
}

// "iteration 812 = 800 updates + 12 skips, attempt 2, 12:03:04"
export function rowWords(row) {
    const skips = row.x - row.updates;
    const group = row.n > 1 ? `${int(row.x - row.n + 1)}\u2013` : '';
    return plain(`iteration ${group}${int(row.x)} = ${int(row.updates)} ` +
        `updates + ${int(skips)} skips, attempt ${row.attempt}, ` +
        `${when(row.t)}`);
}
