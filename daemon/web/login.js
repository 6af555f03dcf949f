// SPDX-License-Identifier: Apache-2.0
// Asks for a token, tries it, and says plainly what is wrong with it.
import * as api from './api.js';
import {el, field, show} from './dom.js';

function tokenField() {
    return el('input', {
        type: 'password', name: 'token', required: true,
        autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
        size: 40,
    });
}

function explain(problem) {
    if (problem.status === 401)
        return `This token is not valid: ${problem.message}`;
    if (problem.status === 403)
        return `This token may not read: ${problem.message}`;
    return problem.message;
}

// message: why it asks, or ''. Resolves with what whoami says.
export function logIn(main, message) {
    const input = tokenField();
    const fault = el('p', {class: 'fault', role: 'alert', text: message});
    const button = el('button', {class: 'primary', text: 'log in'});
    show(fault, message !== '');
    const form = el('form', {class: 'card narrow', 'aria-label': 'log in'},
        el('h1', {text: 'Log in'}),
        field('token', input, 'kept in this tab only, until it is closed'),
        fault, el('div', {class: 'row'}, button),
        el('p', {class: 'hint'},
           'A token is made by ',
           el('code', {text: 'trainctl token create --scope read,submit'}),
           ' on the machine itself; with the scope read alone one may look ' +
           'and change nothing.'));
    main.replaceChildren(form);
    input.focus();
    return new Promise((done) => {
        form.addEventListener('submit', async (event) => {
            event.preventDefault();
            button.disabled = true;
            const secret = input.value.trim();
            try {
                const me = await api.whoami(secret);
                api.setToken(secret);
                done(me);
            } catch (problem) {
                fault.textContent = explain(problem);
                show(fault, true);
                input.select();
                input.focus();
            } finally {
                button.disabled = false;
            }
        });
    });
}
