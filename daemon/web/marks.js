// SPDX-License-Identifier: Apache-2.0
// What is drawn on a chart besides its curve: skips and incidents by verdict,
// attempts and rollbacks, evaluations, checkpoints, what is not finite, and
// lines left behind. Each painter takes (ctx, chart, data); a chart is
// {g, area, kind}, data what job.js knows.
import {colour, verdictOf} from './words.js';

const SIZE = 5;
const FAINT = 3.2; // of what is not diagnosed
const EDGE = 7; // distance of marks from the upper edge

// ---- small things ----------------------------------------------------------

export function drawShape(ctx, verdict, x, y, size = SIZE) {
    const v = verdictOf(verdict);
    ctx.beginPath();
    v.shape.forEach(([dx, dy], i) =>
        ctx[i ? 'lineTo' : 'moveTo'](x + dx * size, y + dy * size));
    ctx.closePath();
    ctx.lineWidth = 1.2;
    if (v.hollow) {
        ctx.fillStyle = colour('--panel');
        ctx.strokeStyle = colour(v.colour);
    } else {
        ctx.fillStyle = colour(v.colour);
        ctx.strokeStyle = colour('--panel');
    }
    ctx.fill();
    ctx.stroke();
}

function xOf(chart, iteration) {
    return chart.g.toDomXCoord(iteration);
}

function yOf(chart, value) {
    return chart.g.toDomYCoord(value);
}

function inside(chart, x) {
    return x >= chart.area.x - SIZE && x <= chart.area.x + chart.area.w + SIZE;
}

function clamp(chart, y) {
    return Math.min(chart.area.y + chart.area.h - SIZE,
                    Math.max(chart.area.y + SIZE, y));
}

// Points as [iteration, value]; what is not finite breaks it.
function drawLine(ctx, chart, points, style) {
    let drawn = false;

    ctx.strokeStyle = style;
    ctx.beginPath();
    for (const [at, value] of points) {
        if (!Number.isFinite(value) || (chart.log && value <= 0)) {
            drawn = false;
            continue;
        }
        ctx[drawn ? 'lineTo' : 'moveTo'](xOf(chart, at), yOf(chart, value));
        drawn = true;
    }
    ctx.stroke();
}

function cross(ctx, x, y, size) {
    ctx.beginPath();
    ctx.moveTo(x - size, y - size);
    ctx.lineTo(x + size, y + size);
    ctx.moveTo(x - size, y + size);
    ctx.lineTo(x + size, y - size);
    ctx.stroke();
}

// ---- below the curve -------------------------------------------------------

// Where an attempt began; a rollback is one that began further back.
export function paintAttempts(ctx, chart, data) {
    ctx.font = '10px system-ui, sans-serif';
    ctx.textBaseline = 'top';
    for (const attempt of data.attempts.slice(1)) {
        const back = data.rollbacks.some(
            (r) => r.attempt === attempt.attempt - 1);
        const x = xOf(chart, attempt.start_iteration);
        if (!inside(chart, x))
            continue;
        ctx.strokeStyle = ctx.fillStyle =
            colour(back ? '--mark-back' : '--mark-attempt');
        ctx.lineWidth = 1;
        ctx.setLineDash(back ? [] : [2, 3]);
        ctx.beginPath();
        ctx.moveTo(x, chart.area.y);
        ctx.lineTo(x, chart.area.y + chart.area.h);
        ctx.stroke();
        ctx.setLineDash([]);
        if (chart.kind.name === 'loss')
            ctx.fillText(`${back ? '\u21b6' : ''}${attempt.attempt}`, x + 3,
                         chart.area.y + 2);
    }
}

export function paintLeft(ctx, chart, data) {
    if (!data.showLeft)
        return;
    ctx.lineWidth = 1;
    for (const line of data.history.left)
        drawLine(ctx, chart, line.map((r) => [r.x, r[chart.kind.field]]),
                 colour('--left'));
}

// ---- above it --------------------------------------------------------------

export function paintEvaluations(ctx, chart, data) {
    const [from, to] = chart.g.xAxisRange();
    const seen = data.evaluations.filter(
        (e) => e.live && e.iteration >= from && e.iteration <= to);

    ctx.lineWidth = 1.4;
    if (seen.length * 9 > chart.area.w) {
        drawLine(ctx, chart, seen.map((e) => [e.iteration, Number(e.loss)]),
                 colour('--validation'));
        return;
    }
    for (const e of data.evaluations) {
        const x = xOf(chart, e.iteration);
        if (!inside(chart, x) || (!e.live && !data.showLeft))
            continue;
        const loss = Number(e.loss);
        ctx.strokeStyle = colour(e.live ? '--validation' : '--left');
        ctx.fillStyle = colour('--panel');
        if (!Number.isFinite(loss)) {
            cross(ctx, x, chart.area.y + EDGE, 3.5);
            continue;
        }
        ctx.beginPath();
        ctx.arc(x, yOf(chart, loss), 3, 0, 2 * Math.PI);
        ctx.fill();
        ctx.stroke();
    }
}

// NaN and infinities stand at the upper edge: no curve shows them.
export function paintNonFinite(ctx, chart, data) {
    const {field} = chart.kind;
    const known = data.rows.some((r) => !Number.isNaN(r[field]));
    if (!known && field !== 'loss')
        return;
    ctx.strokeStyle = colour('--bad');
    ctx.lineWidth = 1.6;
    for (const row of data.rows) {
        const bad = !Number.isFinite(row[field]) ||
            (field === 'loss' && !(Number.isFinite(row.lo) &&
                                   Number.isFinite(row.hi)));
        const x = bad ? xOf(chart, row.x) : 0;
        if (bad && inside(chart, x))
            cross(ctx, x, chart.area.y + EDGE, 3);
    }
}

// From the scale before to the one after, and the verdict's shape on top.
export function paintSkips(ctx, chart, data) {
    for (const skip of data.skips) {
        const x = xOf(chart, skip.iteration);
        if (!inside(chart, x))
            continue;
        const top = clamp(chart, yOf(chart, Number(skip.before)));
        const foot = yOf(chart, Number(skip.after));
        ctx.strokeStyle = colour(verdictOf(skip.verdict).colour);
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, foot);
        ctx.stroke();
        drawShape(ctx, skip.verdict, x, top, skip.verdict ? SIZE : FAINT);
    }
    if (data.skipsCut)
        paintUncounted(ctx, chart, data);
}

// More skips than are asked for one by one: a tick for each point that has any.
function paintUncounted(ctx, chart, data) {
    const y = chart.area.y + chart.area.h;
    ctx.strokeStyle = colour('--v-none');
    ctx.beginPath();
    for (const row of data.rows) {
        if (row.skips === 0)
            continue;
        const x = xOf(chart, row.x);
        ctx.moveTo(x, y);
        ctx.lineTo(x, y - 6);
    }
    ctx.stroke();
}

// Those that were no skip: seen in the loss, a metric or the weights.
export function paintIncidents(ctx, chart, data) {
    for (const incident of data.incidents) {
        const x = xOf(chart, incident.iteration);
        if (incident.trigger !== 'skip' && inside(chart, x) &&
            (incident.live || data.showLeft))
            drawShape(ctx, incident.verdict, x, chart.area.y + EDGE);
    }
}

export function paintCheckpoints(ctx, chart, data) {
    const y = chart.area.y + chart.area.h;
    for (const c of data.checkpoints) {
        const x = xOf(chart, c.iteration);
        if (!c.live || c.state !== 'good' || !inside(chart, x))
            continue;
        ctx.fillStyle = colour(c.best ? '--validation' : '--muted');
        ctx.beginPath();
        ctx.moveTo(x - 3, y);
        ctx.lineTo(x + 3, y);
        ctx.lineTo(x, y - 5);
        ctx.fill();
    }
}
