// SPDX-License-Identifier: Apache-2.0
// Requests to the daemon: the token, faults as one kind of error, answers that
// have not changed, and no more than a few at a time.

const KEY = 'traind.token';
const AT_ONCE = 4;
const KEEP = 64; // answers, for If-None-Match
const PATIENCE_MS = 60000;

let token = sessionStorage.getItem(KEY) ?? '';
let onRefused = () => {};
const kept = new Map();

export class Problem extends Error {
    constructor(status, body, retryAfter) {
        super(body?.detail || body?.title || `the daemon answered ${status}`);
        this.status = status;
        this.error = body?.error ?? '';
        this.errors = body?.errors ?? [];
        this.retryAfter = retryAfter;
    }
}

export function hasToken() {
    return token !== '';
}

export function setToken(secret) {
    token = secret;
    kept.clear();
    if (secret)
        sessionStorage.setItem(KEY, secret);
    else
        sessionStorage.removeItem(KEY);
}

// Called with a Problem when a token that was good is refused.
export function whenRefused(f) {
    onRefused = f;
}

export function authorization() {
    return token ? {Authorization: `Bearer ${token}`} : {};
}

// ---- a few at a time -------------------------------------------------------

let running = 0;
const waiting = [];

async function inTurn(f) {
    if (running >= AT_ONCE)
        await new Promise((go) => waiting.push(go));
    else
        running++;
    try {
        return await f();
    } finally {
        const next = waiting.shift();
        if (next)
            next();
        else
            running--;
    }
}

// ---- one request -----------------------------------------------------------

function query(params) {
    const list = Object.entries(params ?? {})
        .filter(([, v]) => v !== undefined && v !== '');
    const text = new URLSearchParams(list).toString();
    return text ? `?${text}` : '';
}

async function readProblem(response) {
    let body = null;
    if ((response.headers.get('Content-Type') ?? '').includes('json'))
        body = await response.json().catch(() => null);
    return new Problem(response.status, body,
                       Number(response.headers.get('Retry-After')) || 0);
}

// Its own signal, and one for when nothing comes back.
function bounded(signal) {
    const late = AbortSignal.timeout(PATIENCE_MS);
    return signal ? AbortSignal.any([signal, late]) : late;
}

async function ask(url, options) {
    let response;
    try {
        response = await fetch(url, {
            ...options, cache: 'no-store', credentials: 'omit',
            headers: {...authorization(), ...options.headers},
            signal: bounded(options.signal),
        });
    } catch (e) {
        if (e.name === 'AbortError')
            throw e;
        throw new Problem(0, {detail: 'the daemon does not answer: is traind ' +
                                      'running, and the way to it open?'});
    }
    if (response.ok || response.status === 304)
        return response;
    const problem = await readProblem(response);
    if (response.status === 401 && !options.quiet)
        onRefused(problem);
    throw problem;
}

function keep(url, etag, body) {
    kept.delete(url);
    kept.set(url, {etag, body});
    if (kept.size > KEEP)
        kept.delete(kept.keys().next().value);
}

export function get(path, params, options = {}) {
    const url = `/v1/${path}${query(params)}`;
    return inTurn(async () => {
        const last = kept.get(url);
        const headers = last ? {'If-None-Match': last.etag} : {};
        const response = await ask(url, {...options, headers});
        if (response.status === 304)
            return last.body;
        const body = await response.json();
        const etag = response.headers.get('ETag');
        if (etag && options.keep !== false)
            keep(url, etag, body);
        return body;
    });
}

// All pages of a list, at most `most` items; {items, more}.
export async function list(path, params, most = 1000, options = {}) {
    const items = [];
    let page, after = params?.after_row;
    do {
        page = await get(path, {...params, after_row: after}, options);
        items.push(...page.items);
        after = page.items.at(-1)?.row ?? page.items.at(-1)?.id;
    } while (page.more && items.length < most && after !== undefined);
    return {items, more: page.more};
}

export function text(path, params, options = {}) {
    return inTurn(async () =>
        (await ask(`/v1/${path}${query(params)}`, options)).text());
}

// body: an object, or JSON as text. {status, body}: 202 is "not yet".
export async function post(path, body, {params, headers, signal} = {}) {
    const response = await ask(`/v1/${path}${query(params)}`, {
        method: 'POST', signal,
        headers: {'Content-Type': 'application/json', ...headers},
        body: typeof body === 'string' ? body : JSON.stringify(body ?? {}),
    });
    return {status: response.status,
            body: await response.json().catch(() => null)};
}

// Good, or a Problem; nobody is told.
export function whoami(secret) {
    return ask('/v1/whoami', {
        quiet: true,
        headers: secret ? {Authorization: `Bearer ${secret}`} : {},
    }).then((r) => r.json());
}
