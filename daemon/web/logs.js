// SPDX-License-Identifier: Apache-2.0
// The end of what a worker wrote; asked for only while it is looked at.
import * as api from './api.js';
import {el, setText} from './dom.js';
import {plain} from './format.js';
import {section} from './story.js';

const LINES = 200;
const AGAIN_MS = 4000;

// Control characters are shown; lines stay lines.
function clean(text) {
    return text.split('\n').map((line) => plain(line.replace(/\t/g, '    ')))
        .join('\n');
}

export class Logs {
    constructor(job) {
        this.job = job;
        this.running = false;
        const {node, body} = section('logs', 'Log');
        this.node = node;
        this.stream = el('select', {'aria-label': 'stream'},
            ['stderr', 'stdout'].map((name) => el('option', {text: name})));
        this.attempt = el('select', {'aria-label': 'attempt'});
        this.text = el('pre', {class: 'log', tabindex: 0});
        this.box = el('details', {ontoggle: () => this.turn()},
            el('summary', {text: `the last ${LINES} lines`}),
            el('div', {class: 'row'}, this.stream, this.attempt),
            this.text);
        this.stream.addEventListener('change', () => this.load());
        this.attempt.addEventListener('change', () => this.load());
        body.append(this.box);
    }

    update(job, attempts) {
        const latest = this.attempt.selectedIndex <= 0;
        const have = this.attempt.options.length;
        this.running = job.state === 'running';
        if (have !== attempts.length) {
            this.attempt.replaceChildren(...[...attempts].reverse().map((a) =>
                el('option', {value: a.attempt,
                              text: `attempt ${a.attempt}`})));
            if (latest)
                this.attempt.selectedIndex = 0;
            this.turn();
        }
    }

    turn() {
        clearTimeout(this.timer);
        if (this.box.open)
            this.load();
    }

    async load() {
        clearTimeout(this.timer);
        if (!this.attempt.value) {
            setText(this.text, 'nothing has been started yet');
            return;
        }
        try {
            const text = await api.text(`jobs/${this.job}/logs`, {
                stream: this.stream.value, attempt: this.attempt.value,
                tail: LINES,
            });
            const atEnd = this.text.scrollTop + this.text.clientHeight >=
                this.text.scrollHeight - 20;
            setText(this.text, clean(text) || '(empty)');
            if (atEnd)
                this.text.scrollTop = this.text.scrollHeight;
        } catch (problem) {
            setText(this.text, plain(problem.message));
        }
        if (this.running && this.box.open && !this.gone)
            this.timer = setTimeout(() => this.load(), AGAIN_MS);
    }

    leave() {
        this.gone = true;
        clearTimeout(this.timer);
    }
}
