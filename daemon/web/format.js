// SPDX-License-Identifier: Apache-2.0
// Numbers, times and sizes as text, as trainctl writes them.

const SPACE = '\u202f'; // narrow, does not break
const NONE = '\u2013';
const MINUS = '\u2212';

// On the wire NaN and infinities are strings.
export function num(v) {
    return typeof v === 'number' ? v : Number(v ?? NaN);
}

export function int(v) {
    const n = num(v);
    if (!Number.isFinite(n))
        return real(n);
    return String(Math.trunc(n)).replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
}

// Four significant digits; what is not finite is told.
export function real(v, digits = 4) {
    const n = num(v);
    if (Number.isNaN(n))
        return 'NaN';
    if (!Number.isFinite(n))
        return n > 0 ? '+inf' : `${MINUS}inf`;
    if (n === 0)
        return '0';
    const size = Math.abs(n);
    if (size >= 10 ** (digits - 1) && size < 1e6)
        return int(Math.round(n));
    const text = size < 1e-3 || size >= 1e6
        ? n.toExponential(digits - 1) : n.toPrecision(digits);
    return text.includes('e') ? text.replace('e+', 'e') : text;
}

// The same where NaN means that there is none.
export function known(v, digits) {
    return Number.isNaN(num(v)) ? NONE : real(v, digits);
}

export function percent(v, digits = 2) {
    const n = num(v);
    return Number.isFinite(n) ? `${(100 * n).toFixed(digits)} %` : NONE;
}

const UP = '⁰¹²³⁴⁵⁶⁷⁸⁹';
export function power(exponent) {
    const digits = [...String(Math.abs(exponent))].map((d) => UP[+d]);
    return `2${exponent < 0 ? '⁻' : ''}${digits.join('')}`;
}

// A loss scale: 65536, 2²⁴, 2⁻³, 3.5
export function scale(v) {
    const n = num(v);
    if (!Number.isFinite(n) || n <= 0)
        return Number.isNaN(n) ? NONE : real(n);
    const exponent = Math.log2(n);
    if (Number.isInteger(exponent) && (n > 99999 || n < 1))
        return power(exponent);
    return Number.isInteger(n) && n < 1e6 ? String(n) : real(n);
}

const two = (n) => String(n).padStart(2, '0');

// "0:37", "1:02:03", "2d 03:04"
export function duration(seconds) {
    let s = num(seconds);
    if (!Number.isFinite(s) || s < 0)
        return NONE;
    s = Math.round(s);
    const minutes = Math.floor(s / 60), hours = Math.floor(minutes / 60);
    if (hours >= 24)
        return `${Math.floor(hours / 24)}d ${two(hours % 24)}:` +
            `${two(minutes % 60)}`;
    if (hours > 0)
        return `${hours}:${two(minutes % 60)}:${two(s % 60)}`;
    return `${minutes}:${two(s % 60)}`;
}

export function bytes(v) {
    let n = num(v), unit = 0;
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
    if (!Number.isFinite(n))
        return NONE;
    while (n >= 1024 && unit < units.length - 1) {
        n /= 1024;
        unit++;
    }
    return `${unit === 0 ? n : n.toFixed(1)}${SPACE}${units[unit]}`;
}

const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-` +
    `${two(d.getDate())}`;
const clockOf = (d) => `${two(d.getHours())}:${two(d.getMinutes())}:` +
    `${two(d.getSeconds())}`;

// The clock today, the date before.
export function when(us) {
    if (!num(us))
        return NONE;
    const d = new Date(num(us) / 1000);
    return day(d) === day(new Date()) ? clockOf(d)
        : `${day(d)} ${two(d.getHours())}:${two(d.getMinutes())}`;
}

export function whenExactly(us) {
    if (!num(us))
        return '';
    const d = new Date(num(us) / 1000);
    return `${day(d)} ${clockOf(d)}, ${Intl.DateTimeFormat()
        .resolvedOptions().timeZone}`;
}

export function plural(n, one, many) {
    return `${int(n)} ${num(n) === 1 ? one : many || `${one}s`}`;
}

// Control characters and what turns text around are shown, not obeyed.
export function plain(text) {
    return String(text ?? '').replace(
        /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
        (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
