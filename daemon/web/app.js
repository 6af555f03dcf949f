// SPDX-License-Identifier: Apache-2.0
// Starts the page: who is it, what is shown (by location.hash), and what the
// stream brings to whoever shows it. Keeps the jobs that are known.
import * as api from './api.js';
import {el, setText, show} from './dom.js';
import {plain} from './format.js';
import {JobPage} from './job.js';
import {JobsPage} from './jobs.js';
import {logIn} from './login.js';
import {Stream} from './stream.js';
import {SubmitPage} from './submit.js';

const main = document.getElementById('main');
const jobs = new Map();
let me = null;
let page = null;
let stream = null;

// ---- what pages may ask for ------------------------------------------------

const app = {
    jobs,
    get me() {
        return me;
    },
    // '' or why an order of this token would be refused.
    whyNotSubmit() {
        return me.scopes.some((s) => s === 'submit' || s === 'admin') ? ''
            : `your token has the scope ${me.scopes.join(', ')}: orders ` +
              'need submit';
    },
    remember(job) {
        jobs.set(job.id, job);
    },
    toast(text, kind = '') {
        const note = el('p', {class: `toast ${kind}`, text: plain(text)});
        document.getElementById('toasts').append(note);
        setTimeout(() => note.remove(), kind === 'bad' ? 12000 : 6000);
    },
};

// ---- pages -----------------------------------------------------------------

function choose(hash) {
    const [, name, id] = hash.split('/');
    if (name === 'job' && /^\d+$/.test(id ?? ''))
        return new JobPage(app, main, Number(id));
    if (name === 'submit')
        return new SubmitPage(app, main);
    return new JobsPage(app, main);
}

function mark(name) {
    for (const link of document.querySelectorAll('nav a'))
        if (link.dataset.page === name)
            link.setAttribute('aria-current', 'page');
        else
            link.removeAttribute('aria-current');
}

function route() {
    if (me === null)
        return;
    page?.leave();
    main.replaceChildren();
    page = choose(location.hash);
    mark(page.name);
    document.title = page.title;
    scrollTo(0, 0);
    page.enter();
}

// ---- the stream ------------------------------------------------------------

const connection = document.getElementById('connection');

function tellConnection(state, seconds) {
    const words = {
        connecting: 'connecting', live: 'live',
        waiting: seconds ? `no connection, again in ${seconds} s`
            : 'no connection',
    };
    connection.dataset.state = state;
    setText(connection, words[state]);
}

function makeStream() {
    return new Stream({
        state: tellConnection,
        refused: () => api.get('whoami', null, {keep: false}).catch(() => {}),
        // What ended while nobody listened is not told again.
        fresh: () => page?.refresh(),
        job(job) {
            jobs.set(job.id, job);
            page?.onJob(job);
        },
        event: (event) => page?.onEvent(event),
    });
}

// ---- coming and going ------------------------------------------------------

function tellWho() {
    setText(document.getElementById('who'),
            me ? `${plain(me.user)}${me.admin ? ' (admin)' : ''}` : '');
    setText(document.getElementById('version'),
            me ? `traind ${plain(me.version)}` : '');
    show(document.getElementById('logout'), me !== null && api.hasToken());
    document.body.classList.toggle('out', me === null);
}

function leave() {
    stream?.stop();
    page?.leave();
    page = null;
    me = null;
    jobs.clear();
    api.setToken('');
    tellWho();
}

async function enter(message) {
    document.title = 'traind: log in';
    tellConnection('connecting');
    setText(connection, '');
    me = await logIn(main, message);
    begin();
}

function begin() {
    tellWho();
    stream = makeStream();
    route();
    stream.start();
}

async function start() {
    tellWho();
    try {
        me = await api.whoami('');
    } catch (problem) {
        if (problem.status === 401)
            await again(api.hasToken() ? problem : null);
        else
            await enter(problem.message);
        return;
    }
    begin();
}

// The token was good once, or is left from an earlier visit.
function again(problem) {
    leave();
    return enter(problem
        ? `Your token has expired or was revoked: ${problem.message}` : '');
}

api.whenRefused((problem) => {
    if (me !== null)
        again(problem);
});
document.getElementById('logout').addEventListener('click', () => {
    leave();
    enter('');
});
addEventListener('hashchange', route);
addEventListener('online', () => stream?.nudge());
document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible')
        stream?.nudge();
});
start();
