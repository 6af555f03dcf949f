// SPDX-License-Identifier: Apache-2.0
// Going back: where to, and what changes with it. The daemon says what would
// happen while the choice is made (a dry run), and a changed policy has to be
// accepted before the button works.
import * as api from './api.js';
import {debounce, el, field, setText, show} from './dom.js';
import {openDialog, parseScale, scaleHint} from './dialogs.js';
import {int, plain, plural, when} from './format.js';

function choice(name, value, label, checked) {
    const input = el('input', {type: 'radio', name, value, id: `to-${value}`,
                               checked});
    return el('label', {for: input.id}, input, ` ${label}`);
}

function checkpointLabel(c) {
    return `${int(c.iteration)}: ${plain(c.name)}${c.best ? ', best' : ''}` +
        `${c.live ? '' : ', abandoned line'}, ${when(c.t_us)}`;
}

function cureLabel(i) {
    return `${i.id}: ${i.verdict || 'not diagnosed'} at ${int(i.iteration)}` +
        `${i.layer ? ` in ${plain(i.layer)}` : ''}`;
}

class Form {
    constructor(job, checkpoints, incidents, preset) {
        this.job = job;
        this.checkpoints = checkpoints
            .filter((c) => c.state === 'good')
            .sort((a, b) => b.iteration - a.iteration);
        this.incidents = incidents.filter((i) => i.cure)
            .sort((a, b) => b.id - a.id);
        this.preset = preset;
        this.build();
    }

    build() {
        const {checkpoint, cure} = this.preset;
        this.which = el('select', {'aria-label': 'checkpoint'},
            this.checkpoints.map((c) => el('option', {
                value: c.id, text: checkpointLabel(c)})));
        this.cure = el('select', {},
            el('option', {value: 0, text: 'none'}),
            this.incidents.map((i) => el('option', {
                value: i.id, text: cureLabel(i)})));
        this.scale = el('input', {type: 'text', inputmode: 'decimal',
                                  size: 12, placeholder: 'as it was'});
        this.skip = el('input', {type: 'number', min: 0, step: 1, value: '',
                                 placeholder: '0'});
        this.set = el('input', {type: 'text', spellcheck: 'false',
                                placeholder: 'amp.dtype=bfloat16'});
        this.accept = el('input', {type: 'checkbox', id: 'accept-policy'});
        const n = this.checkpoints.length;
        this.where = el('fieldset', {}, el('legend', {text: 'to'}),
            choice('to', 'last', 'the last checkpoint', n > 0 && !checkpoint),
            choice('to', 'best', 'the best one'),
            choice('to', 'start', 'the start', n === 0),
            el('span', {class: 'one'},
               choice('to', 'one', 'this one:', Boolean(checkpoint)),
               this.which));
        if (n === 0)
            for (const input of this.where.querySelectorAll('input'))
                input.disabled = input.value !== 'start';
        show(this.which, n > 0);
        if (checkpoint)
            this.which.value = String(checkpoint);
        if (cure)
            this.cure.value = String(cure);
        this.which.addEventListener('focus', () => {
            this.where.querySelector('[value=one]').checked = true;
        });
    }

    nodes() {
        this.words = el('p', {class: 'preview', role: 'status',
                              'aria-live': 'polite'});
        this.acceptRow = el('label', {class: 'accept', for: 'accept-policy',
                                      hidden: true}, this.accept,
            ' I know that this makes it another experiment, and it will be ' +
            'marked as one');
        return [
            this.where,
            el('div', {class: 'fields'},
               field('cure of incident', this.cure,
                     'merges the cure into the spec from here on'),
               field('loss scale', this.scale, scaleHint(this.job)),
               field('batches to pass over', this.skip,
                     'windows of data after the checkpoint'),
               field('other changes', this.set,
                     'path=value of the spec; several apart by spaces')),
            this.words, this.acceptRow,
        ];
    }

    // The fields of view rollback.
    ask() {
        const to = this.where.querySelector('input:checked')?.value ?? 'last';
        const ask = {to: to === 'one' ? this.which.value : to};
        if (Number(this.cure.value))
            ask.cure = Number(this.cure.value);
        if (this.scale.value.trim())
            ask.scale = parseScale(this.scale.value);
        if (Number(this.skip.value))
            ask.skip_batches = Number(this.skip.value);
        if (this.set.value.trim())
            ask.set = this.set.value.trim().split(/\s+/);
        return ask;
    }

    // '' or what the daemon need not be asked for.
    fault() {
        const scale = this.scale.value.trim();
        if (scale && !(parseScale(scale) > 0))
            return `"${scale}" is no loss scale: a number above 0, or 2^16`;
        if (!this.skip.validity.valid)
            return 'batches to pass over: a whole number, 0 or more';
        return '';
    }
}

function foresee(r) {
    const target = r.name ? `checkpoint ${r.name} at iteration ` +
        `${int(r.iteration)}` : 'the start';
    const change = r.difference ? ` With it: ${r.difference}.`
        : ' The policy stays as it is.';
    return plain(`From iteration ${int(r.from_iteration)} back to ${target}: ` +
        `${plural(r.abandoned, 'iteration is', 'iterations are')} left ` +
        `behind, kept and marked as an abandoned line.${change}`);
}

class Preview {
    constructor(form, go, path) {
        this.form = form;
        this.go = go;
        this.path = path;
        this.look = debounce(() => this.ask(), 250);
        this.allow(false);
    }

    allow(on) {
        this.good = on;
        this.settle();
    }

    settle() {
        const {accept, acceptRow} = this.form;
        const ready = this.good && (acceptRow.hidden || accept.checked);
        this.go.setAttribute('aria-disabled', String(!ready));
        this.go.title = ready ? ''
            : this.good ? 'accept the change of policy first'
                : 'see above why not';
    }

    changed() {
        this.form.accept.checked = false;
        this.allow(false);
        this.look();
    }

    say(text, bad) {
        setText(this.form.words, plain(text));
        this.form.words.classList.toggle('bad', bad);
    }

    async ask() {
        const fault = this.form.fault();
        this.abort?.abort();
        if (fault) {
            this.say(fault, true);
            return;
        }
        this.abort = new AbortController();
        try {
            const {body} = await api.post(
                this.path, {...this.form.ask(), dry_run: true},
                {signal: this.abort.signal});
            show(this.form.acceptRow, body.policy_changed);
            this.say(foresee(body), false);
            this.allow(true);
        } catch (problem) {
            if (problem.name === 'AbortError')
                return;
            show(this.form.acceptRow, false);
            this.say(problem.message, true);
        }
    }
}

// preset: {checkpoint: id} or {cure: incident}; both may be left out.
export function openRollback(app, job, {checkpoints, incidents}, preset = {}) {
    const path = `jobs/${job.id}/rollback`;
    const form = new Form(job, checkpoints, incidents, preset);
    const {dialog, go} = openDialog({
        title: `Roll back: ${job.id} ${plain(job.name)}`, verb: 'roll back',
        danger: true, body: form.nodes(),
        run: async () => {
            const ask = form.ask();
            if (form.accept.checked)
                ask.accept_policy_change = true;
            const {status, body} = await api.post(path, ask);
            app.toast(status === 202
                ? `job ${job.id}: the daemon is at it (roll back)`
                : `job ${job.id} is back at iteration ${int(body.iteration)}`);
        },
        onClose: () => preview.look.cancel(),
    });
    dialog.classList.add('wide');
    const preview = new Preview(form, go, path);
    dialog.addEventListener('input', (event) => {
        if (event.target === form.accept)
            preview.settle();
        else
            preview.changed();
    });
    preview.ask();
}
