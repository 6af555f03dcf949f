// SPDX-License-Identifier: Apache-2.0
// The names of states and verdicts, and how each looks: a letter and a shape
// as well as a colour, so that nobody needs to tell colours apart.
import {el, svg} from './dom.js';

export const states = {
    queued: {glyph: '\u25cb', final: false},
    starting: {glyph: '\u25d4', final: false},
    running: {glyph: '\u25b6', final: false},
    stopping: {glyph: '\u25d1', final: false},
    paused: {glyph: '\u2016', final: false},
    completed: {glyph: '\u2713', final: true},
    failed: {glyph: '\u2715', final: true},
    cancelled: {glyph: '\u2298', final: true},
    interrupted: {glyph: '?', final: true},
};

export function isFinal(state) {
    return states[state]?.final ?? false;
}

// What is running comes first, then what will, then what is over.
const order = ['running', 'starting', 'stopping', 'queued', 'paused'];
export function rank(state) {
    const at = order.indexOf(state);
    return at < 0 ? order.length : at;
}

export function stateBadge() {
    const glyph = el('span', {class: 'glyph', 'aria-hidden': 'true'});
    const word = el('span');
    return el('span', {class: 'state'}, glyph, word);
}

export function setState(badge, state) {
    if (badge.dataset.state === state)
        return;
    badge.dataset.state = state;
    badge.firstChild.textContent = states[state]?.glyph ?? '\u00b7';
    badge.lastChild.textContent = state;
}

// Shapes are paths in a square from -1 to 1: marks.js draws them too.
const circle = [[1, 0], [.71, .71], [0, 1], [-.71, .71], [-1, 0],
                [-.71, -.71], [0, -1], [.71, -.71]];
export const verdicts = {
    '': {
        letter: '?', name: 'not diagnosed', colour: '--v-none',
        shape: circle, hollow: true,
        meaning: 'not run again, or nothing was found when it was',
    },
    scale_overflow: {
        letter: 'S', name: 'scale_overflow', colour: '--v-scale',
        shape: [[-1, -.8], [1, -.8], [0, 1]],
        meaning: 'the loss scale was too large: normal calibration',
    },
    forward_overflow: {
        letter: 'F', name: 'forward_overflow', colour: '--v-forward',
        shape: [[-1, .8], [1, .8], [0, -1]],
        meaning: 'an activation does not fit the dtype: no scale helps',
    },
    backward_overflow: {
        letter: 'B', name: 'backward_overflow', colour: '--v-backward',
        shape: [[0, -1.1], [1.1, 0], [0, 1.1], [-1.1, 0]],
        meaning: 'a gradient does not fit the dtype at any scale',
    },
    bad_input: {
        letter: 'I', name: 'bad_input', colour: '--v-input',
        shape: [[-.9, -.9], [.9, -.9], [.9, .9], [-.9, .9]],
        meaning: 'the batch itself is not finite, or a label is out of range',
    },
    divergence: {
        letter: 'D', name: 'divergence', colour: '--v-divergence',
        shape: [[-1, -.5], [-.5, -1], [0, -.5], [.5, -1], [1, -.5], [.5, 0],
                [1, .5], [.5, 1], [0, .5], [-.5, 1], [-1, .5], [-.5, 0]],
        meaning: 'not finite in float32 either: no matter of precision',
    },
    optimizer: {
        letter: 'O', name: 'optimizer', colour: '--v-optimizer',
        shape: [[0, -1], [1, -.25], [.6, 1], [-.6, 1], [-1, -.25]],
        meaning: 'the update before made a weight or its state not finite',
    },
};

export function verdictOf(name) {
    return verdicts[name] ?? verdicts[''];
}

export function verdictIcon(name, size = 12) {
    const v = verdictOf(name);
    const points = v.shape.map(([x, y]) => `${x},${y}`).join(' ');
    return svg('svg', {
        class: `verdict-icon ${v.hollow ? 'hollow' : ''}`,
        viewBox: '-1.3 -1.3 2.6 2.6', width: size, height: size,
        'aria-hidden': 'true', 'data-verdict': v.name,
    }, svg('polygon', {points}));
}

// "▲ F forward_overflow"
export function verdictBadge(name) {
    const v = verdictOf(name);
    return el('span', {class: 'verdict', title: v.meaning,
                       'data-verdict': v.name},
              verdictIcon(name),
              el('b', {text: v.letter}), ` ${v.name}`);
}

// Values of style.css, for what is drawn on a canvas.
const colours = new Map();
addEventListener('themechange', () => colours.clear());

export function colour(name) {
    if (!colours.has(name))
        colours.set(name, getComputedStyle(document.documentElement)
            .getPropertyValue(name).trim());
    return colours.get(name);
}
