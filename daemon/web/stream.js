// SPDX-License-Identifier: Apache-2.0
// Server-sent events, read from a response's body: so the token travels in a
// header and never in an address. Goes on after the last event seen, waits
// longer from time to time while nobody answers, and says how it stands.
import {authorization} from './api.js';

const SILENCE_MS = 45000; // a heartbeat comes every 15 s
const LONGEST_MS = 30000;

// Lines into messages; a message ends at an empty line.
export class Parser {
    constructor(onMessage) {
        this.onMessage = onMessage;
        this.rest = '';
        this.clear();
    }

    clear() {
        this.message = {event: 'message', data: [], id: undefined,
                        retry: undefined};
    }

    push(text) {
        const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
        this.rest = lines.pop();
        for (const line of lines)
            this.line(line);
    }

    line(line) {
        if (line === '') {
            const m = this.message;
            this.clear();
            if (m.data.length || m.retry !== undefined)
                this.onMessage({...m, data: m.data.join('\n')});
            return;
        }
        const at = line.indexOf(':');
        const name = at < 0 ? line : line.slice(0, at);
        const value = at < 0 ? '' : line.slice(at + 1).replace(/^ /, '');
        if (name === 'data')
            this.message.data.push(value);
        else if (name === 'event' || name === 'id')
            this.message[name] = value;
        else if (name === 'retry' && /^\d+$/.test(value))
            this.message.retry = Number(value);
    }
}

export class Stream {
    // on: {event(view), job(view), state(name, seconds), fresh(), refused()}
    constructor(on) {
        this.on = on;
        this.lastId = '';
        this.retryMs = 3000;
        this.failures = 0;
        this.stopped = true;
        this.wake = () => {};
    }

    start() {
        if (!this.stopped)
            return;
        this.stopped = false;
        this.failures = 0;
        this.run();
    }

    stop() {
        this.stopped = true;
        this.lastId = '';
        this.abort?.abort();
        this.wake();
    }

    // Somebody looks again: no need to wait any longer.
    nudge() {
        this.wake();
    }

    async run() {
        while (!this.stopped) {
            this.on.state('connecting');
            try {
                await this.once();
            } catch (e) {
                // Told below, by the state: what broke it does not matter.
            }
            if (!this.stopped)
                await this.pause();
        }
    }

    async pause() {
        const ms = Math.min(LONGEST_MS, this.retryMs * 2 ** this.failures);
        const wait = this.failures === 0 ? Math.min(ms, 500)
            : ms * (0.75 + Math.random() / 2);
        this.failures++;
        this.on.state('waiting', Math.round(wait / 1000));
        await new Promise((go) => {
            const timer = setTimeout(go, wait);
            this.wake = () => {
                clearTimeout(timer);
                go();
            };
        });
    }

    async once() {
        this.abort = new AbortController();
        const headers = {Accept: 'text/event-stream', ...authorization()};
        if (this.lastId)
            headers['Last-Event-ID'] = this.lastId;
        const response = await fetch('/v1/events', {
            headers, cache: 'no-store', credentials: 'omit',
            signal: this.abort.signal,
        });
        if (response.status === 401)
            this.on.refused();
        if (!response.ok)
            throw new Error(String(response.status));
        this.failures = 0;
        this.on.state('live');
        this.on.fresh();
        await this.read(response.body.getReader());
    }

    async read(reader) {
        const decoder = new TextDecoder();
        const parser = new Parser((m) => this.take(m));
        let timer;
        const alarm = () => {
            clearTimeout(timer);
            timer = setTimeout(() => this.abort.abort(), SILENCE_MS);
        };
        try {
            for (;;) {
                alarm();
                const {done, value} = await reader.read();
                if (done)
                    return;
                parser.push(decoder.decode(value, {stream: true}));
            }
        } finally {
            clearTimeout(timer);
        }
    }

    take(message) {
        if (message.retry !== undefined)
            this.retryMs = message.retry;
        if (!message.data)
            return;
        if (message.id !== undefined)
            this.lastId = message.id;
        let view;
        try {
            view = JSON.parse(message.data);
        } catch (e) {
            return; // A later daemon may say more than this page knows.
        }
        if (message.event === 'job')
            this.on.job(view);
        else if (message.event === 'event')
            this.on.event(view);
    }
}
