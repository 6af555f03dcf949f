// SPDX-License-Identifier: Apache-2.0
// Orders that ask first: what will happen, then the button. The browser's own
// dialog: Escape closes it, the keyboard stays in it and goes back after.
import * as api from './api.js';
import {el, field, freshId, setText, show} from './dom.js';
import {int, plain, scale} from './format.js';

// {title, body: nodes, verb, danger, run(): sentence to show}. run may throw
// a Problem; then the dialog stays and says so.
export function openDialog({title, body, verb, danger, run, onClose}) {
    const id = freshId('dialog');
    const fault = el('p', {class: 'fault', role: 'alert', hidden: true});
    const busy = el('p', {class: 'muted', role: 'status', hidden: true,
                          text: 'Waiting for the daemon\u2026'});
    const go = el('button', {class: danger ? 'danger' : 'primary',
                             text: verb});
    const back = el('button', {type: 'button', text: 'leave it'});
    const form = el('form', {method: 'dialog'},
        el('h2', {id, text: title}), body, fault, busy,
        el('div', {class: 'row'}, el('span', {class: 'grow'}), back, go));
    const dialog = el('dialog', {'aria-labelledby': id}, form);

    back.addEventListener('click', () => dialog.close());
    form.addEventListener('submit', async (event) => {
        event.preventDefault();
        if (go.getAttribute('aria-disabled') === 'true')
            return;
        show(fault, false);
        show(busy, true);
        go.disabled = true;
        try {
            await run();
            dialog.close();
        } catch (problem) {
            setText(fault, plain(problem.message));
            show(fault, true);
        } finally {
            go.disabled = false;
            show(busy, false);
        }
    });
    dialog.addEventListener('close', () => {
        dialog.remove();
        onClose?.();
    });
    document.body.append(dialog);
    dialog.showModal();
    return {dialog, go};
}

// ---- what each order does, in words ----------------------------------------

function since(job) {
    const n = job.iteration - job.checkpoint_iteration;
    return job.checkpoint
        ? `its last checkpoint, at iteration ${int(job.checkpoint_iteration)}` +
          ` (${int(Math.max(0, n))} iterations ago)`
        : 'the start: it has no checkpoint yet';
}

const orders = {
    pause: {
        verb: 'pause', done: 'is paused',
        says: (j) => j.device || j.state === 'running'
            ? ['The worker makes a checkpoint and ends, and ' +
               `${j.device || 'the device'} is free for others. Nothing is ` +
               'lost: resume goes on from there, loss scale and place in the ' +
               'data included.']
            : ['It leaves the queue until it is resumed.'],
    },
    resume: {
        verb: 'resume', done: 'is queued again',
        says: (j) => [`It is queued again and goes on from ${since(j)} when a ` +
                      'device is free.'],
    },
    checkpoint: {
        verb: 'make a checkpoint', done: 'has a new checkpoint',
        says: (j) => ['Between two iterations the worker writes weights, ' +
                      'optimizer, loss scale and place in the data; training ' +
                      `goes on. Now it could go back to ${since(j)}.`],
    },
    cancel: {
        verb: 'cancel the job', done: 'is cancelled', danger: true,
        says: (j) => ['It ends for good: a cancelled job is never resumed. ' +
                      (j.iteration
                          ? `It is at iteration ${int(j.iteration)}; what is ` +
                            `kept is ${since(j)}, and the history.`
                          : 'It has not begun.'),
                      'To go on later, pause it instead.'],
    },
};

const finality = (j) => `job ${j.id} is ${j.state}: a final state never changes`;

// '' or why the order makes no sense now.
export function whyNot(order, job, final) {
    if (final)
        return finality(job);
    if (order === 'pause' && job.state === 'paused')
        return `job ${job.id} is paused already`;
    if (order === 'resume' && job.state !== 'paused')
        return `job ${job.id} is not paused`;
    if (order === 'checkpoint' && job.state !== 'running')
        return `job ${job.id} has no worker that could make a checkpoint`;
    return '';
}

export function openOrder(app, job, order) {
    const {verb, done, danger, says} = orders[order];
    const reason = el('input', {type: 'text', maxlength: 200,
                                placeholder: 'for the record'});
    const body = [
        ...says(job).map((text) => el('p', {text: plain(text)})),
        order === 'cancel' ? field('reason', reason) : null,
    ].filter(Boolean);
    openDialog({
        title: `${verb[0].toUpperCase()}${verb.slice(1)}: ` +
            `${job.id} ${plain(job.name)}`,
        body, verb, danger,
        run: async () => {
            const {status} = await api.post(
                `jobs/${job.id}/${order}`,
                order === 'cancel' ? {reason: reason.value} : {});
            app.toast(status === 202
                ? `job ${job.id}: the daemon is at it (${verb})`
                : `job ${job.id} ${done}`);
        },
    });
}

// A scale as a person types it: 65536 or 2^16.
export function parseScale(text) {
    const m = /^2\^(-?\d+)$/.exec(text.trim());
    return m ? 2 ** Number(m[1]) : Number(text);
}

export const scaleHint = (job) => `empty: the checkpoint's own; it is ` +
    `${scale(job.scale)} now`;
