// SPDX-License-Identifier: Apache-2.0
// A spec, its faults beside the lines they are in, and the button.
import * as api from './api.js';
import {debounce, el, field, replace, setText, show} from './dom.js';
import {plain, plural} from './format.js';

const MAX_FILE = 4 * 1024 * 1024;

function freshKey() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return [...bytes].map((b) => b.toString(16).padStart(2, '0')).join('');
}

// Faults of the view, or of a problem's list.
function faultsOf(list) {
    return list.map((f) => ({line: f.line ?? 0, col: f.col ?? f.column ?? 0,
                             path: f.path ?? '', message: f.message ?? ''}));
}

export class SubmitPage {
    constructor(app, main) {
        this.app = app;
        this.main = main;
        this.name = 'submit';
        this.title = 'traind: submit';
        this.faults = [];
        this.key = freshKey();
    }

    enter() {
        this.text = el('textarea', {
            class: 'spec', spellcheck: 'false', autocomplete: 'off',
            autocapitalize: 'off', wrap: 'off', rows: 24, name: 'spec',
            placeholder: '{"name": ..., "data": ..., "model": ...}',
        });
        this.gutter = el('div', {class: 'gutter', 'aria-hidden': 'true'});
        this.list = el('ol', {class: 'faults'});
        this.verdict = el('p', {role: 'status', class: 'muted'});
        this.priority = el('input', {type: 'number', step: 1, value: 0,
                                     size: 5, min: -1000, max: 1000});
        this.file = el('input', {type: 'file', accept: '.json,text/plain',
                                 onchange: () => this.read()});
        this.check = el('button', {type: 'button', text: 'validate',
                                   onclick: () => this.validate()});
        this.go = el('button', {class: 'primary', text: 'submit'});
        const why = this.app.whyNotSubmit();
        if (why)
            this.go.setAttribute('aria-disabled', 'true');
        const form = el('form', {class: 'submit', novalidate: true,
                                 onsubmit: (e) => this.submit(e)},
            el('h1', {text: 'Submit a job'}),
            el('div', {class: 'fields'}, field('a spec from a file', this.file),
               field('priority', this.priority, 'higher runs first')),
            el('div', {class: 'editor'}, this.gutter,
               field('spec (JSON)', this.text)),
            this.list,
            el('p', {class: 'hint', text: 'Paths in it are on the machine of ' +
                     'the daemon, absolute; the worker opens them with your ' +
                     'rights there. traind-spec(5) has every key.'}),
            el('div', {class: 'row'}, this.verdict,
               el('span', {class: 'grow'}), this.check, this.go),
            why ? el('p', {class: 'hint', text: why}) : null);
        this.main.replaceChildren(form);
        this.text.addEventListener('input', () => this.edited());
        this.text.addEventListener('scroll', () => this.follow());
        this.later = debounce(() => this.validate(true), 700);
        this.number();
        this.text.focus();
    }

    leave() {
        this.later.cancel();
    }

    refresh() {}
    onJob() {}
    onEvent() {}

    // ---- the text ----------------------------------------------------------

    async read() {
        const [file] = this.file.files;
        if (!file)
            return;
        if (file.size > MAX_FILE) {
            this.say(`${file.name} has ${file.size} bytes: a spec has at ` +
                     `most ${MAX_FILE}`, true);
            return;
        }
        this.text.value = await file.text();
        this.edited();
    }

    edited() {
        this.key = freshKey();
        this.faults = [];
        this.number();
        this.say('', false);
        replace(this.list);
        this.later();
    }

    number() {
        const n = this.text.value.split('\n').length;
        const bad = new Set(this.faults.map((f) => f.line));
        replace(this.gutter, Array.from({length: n}, (_, i) => el('div', {
            text: String(i + 1), class: bad.has(i + 1) ? 'bad' : null})));
        this.follow();
    }

    follow() {
        this.gutter.scrollTop = this.text.scrollTop;
    }

    // Puts the caret where the fault is.
    jump(f) {
        const lines = this.text.value.split('\n');
        const start = lines.slice(0, f.line - 1)
            .reduce((sum, l) => sum + l.length + 1, 0);
        const at = start + Math.max(0, f.col - 1);
        this.text.focus();
        this.text.setSelectionRange(at, at + 1);
        const height = this.text.scrollHeight / lines.length;
        this.text.scrollTop = Math.max(0, (f.line - 5) * height);
    }

    // ---- faults ------------------------------------------------------------

    say(text, bad) {
        setText(this.verdict, plain(text));
        this.verdict.classList.toggle('bad', bad);
    }

    showFaults(faults) {
        this.faults = faults;
        this.number();
        replace(this.list, faults.map((f) => el('li', {},
            f.line ? el('button', {
                type: 'button', class: 'quiet number',
                text: `${f.line}:${f.col}`, onclick: () => this.jump(f),
                'aria-label': `line ${f.line}, column ${f.col}`}) : null,
            ' ', f.path ? el('code', {text: plain(f.path)}) : null,
            f.path ? ': ' : '', plain(f.message))));
        show(this.list, faults.length > 0);
        this.say(faults.length ? plural(faults.length, 'fault')
            : 'The spec is good.', faults.length > 0);
    }

    // true: no fault is known. quiet: nobody asked for it.
    async validate(quiet) {
        if (!this.text.value.trim())
            return false;
        const text = this.text.value;
        try {
            const {body} = await api.post('validate', text);
            if (text !== this.text.value)
                return false;
            this.showFaults(faultsOf(body.items));
            return body.items.length === 0;
        } catch (problem) {
            if (problem.errors.length)
                this.showFaults(faultsOf(problem.errors));
            else if (!quiet)
                this.say(problem.message, true);
            return false;
        }
    }

    async submit(event) {
        event.preventDefault();
        const why = this.app.whyNotSubmit();
        if (why) {
            this.say(why, true);
            return;
        }
        if (!this.text.value.trim()) {
            this.say('There is no spec yet.', true);
            return;
        }
        this.later.cancel();
        this.go.disabled = true;
        try {
            if (await this.validate())
                await this.send();
        } finally {
            this.go.disabled = false;
        }
    }

    // The same text twice is one job: a lost answer may be asked for again.
    async send() {
        try {
            const {body} = await api.post('jobs', this.text.value, {
                params: {priority: Number(this.priority.value) || undefined},
                headers: {'Idempotency-Key': this.key},
            });
            this.app.remember(body);
            this.app.toast(`job ${body.id} is ${body.state}`);
            location.hash = `#/job/${body.id}`;
        } catch (problem) {
            if (problem.errors.length)
                this.showFaults(faultsOf(problem.errors));
            else
                this.say(problem.message, true);
        }
    }
}
