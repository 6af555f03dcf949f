// SPDX-License-Identifier: Apache-2.0
// Elements out of values. Text goes in as text only: what a job is called can
// do nothing here. No markup is ever parsed.

const SVG = 'http://www.w3.org/2000/svg';

function put(node, key, value) {
    if (value === undefined || value === null || value === false)
        return;
    if (key.startsWith('on'))
        node.addEventListener(key.slice(2), value);
    else if (key === 'text')
        node.textContent = value;
    else if (key === 'value')
        node.value = value;
    else
        node.setAttribute(key, value === true ? '' : String(value));
}

function real(children) {
    return children.flat(Infinity).filter((c) => c !== null &&
                                                 c !== undefined);
}

function fill(node, props, children) {
    for (const [key, value] of Object.entries(props || {}))
        put(node, key, value);
    node.append(...real(children));
    return node;
}

// el('td', {class: 'number', onclick: f}, 'text', node)
export function el(tag, props, ...children) {
    return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
    return fill(document.createElementNS(SVG, tag), props, children);
}

// Changes what is shown only if it differs: nobody's selection is lost, and
// no screen reader repeats itself.
export function setText(node, text) {
    if (node.textContent !== text)
        node.textContent = text;
}

export function setTitle(node, text) {
    if (node.title !== text)
        node.title = text;
}

export function show(node, visible) {
    if (node.hidden === visible)
        node.hidden = !visible;
}

export function replace(node, ...children) {
    node.replaceChildren(...real(children));
}

let serial = 0;
export function freshId(stem) {
    serial++;
    return `${stem}-${serial}`;
}

// A label and its control, joined; hint: a sentence below.
export function field(label, control, hint) {
    control.id = control.id || freshId('field');
    const parts = [el('label', {for: control.id, text: label}), control];
    if (hint) {
        const id = freshId('hint');
        control.setAttribute('aria-describedby', id);
        parts.push(el('small', {id, class: 'hint', text: hint}));
    }
    return el('div', {class: 'field'}, parts);
}

// f, at most once in `ms`, and once more at the end of a burst.
export function throttle(f, ms) {
    let last = -Infinity, timer = 0;
    const run = () => {
        timer = 0;
        last = performance.now();
        f();
    };
    const ask = () => {
        if (!timer)
            timer = setTimeout(run,
                               Math.max(0, last + ms - performance.now()));
    };
    ask.cancel = () => {
        clearTimeout(timer);
        timer = 0;
    };
    return ask;
}

// f, once nobody asked for `ms`.
export function debounce(f, ms) {
    let timer = 0;
    const ask = () => {
        clearTimeout(timer);
        timer = setTimeout(f, ms);
    };
    ask.cancel = () => clearTimeout(timer);
    return ask;
}
