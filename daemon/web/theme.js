// SPDX-License-Identifier: Apache-2.0
// Light or dark: as the system says, or as the switch was set. Runs before the
// first paint, so that nothing flashes; the only thing kept for good.
(() => {
    'use strict';
    const KEY = 'traind.theme';
    const next = {auto: 'light', light: 'dark', dark: 'auto'};
    const root = document.documentElement;
    const word = document.createElement('span');
    const system = matchMedia('(prefers-color-scheme: dark)');
    let chosen = 'auto';

    try {
        chosen = localStorage.getItem(KEY) || 'auto';
    } catch (e) {
        // Storage may be switched off; then it lasts as long as the page.
    }
    if (!(chosen in next))
        chosen = 'auto';

    function apply() {
        const dark = chosen === 'auto' ? system.matches : chosen === 'dark';
        root.dataset.theme = dark ? 'dark' : 'light';
        const button = document.getElementById('theme');
        if (button) {
            button.replaceChildren('\u25d0 ', word);
            word.textContent = chosen;
            button.title = `colours: ${chosen}; switch to ${next[chosen]}`;
            button.setAttribute('aria-label', button.title);
        }
        dispatchEvent(new Event('themechange'));
    }

    function turn() {
        chosen = next[chosen];
        try {
            localStorage.setItem(KEY, chosen);
        } catch (e) {
            // See above.
        }
        apply();
    }

    apply();
    system.addEventListener('change', apply);
    addEventListener('DOMContentLoaded', () => {
        document.getElementById('theme').addEventListener('click', turn);
        apply();
    });
})();
