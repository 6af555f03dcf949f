#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes ops.txt and ops.safetensors: what PyTorch computes, op by op.

    python3 tests/kernels/oracle/oracle_ops.py      # needs torch, on a CPU

Written with the torch named in ops.txt; the tests (oracle_ops_test.c) need
only the two files. Every op of kernels/ops.def that PyTorch has, forward and
backward, in the dtypes it runs in under autocast with the CUDA list (numerics,
section 3), which is not the list of PyTorch's CPU autocast. So no autocast is
used here; instead each op is called in the dtype its class gives it:

  lower precision   float32, float16 and bfloat16, bias included
  fp32              float32 alone: every input is a number that float16 and
                    bfloat16 hold, so these are also the numbers behind a cast
                    from either
  widest, as given  all three, parameters of norms in float32

How a half result was made stands in each line:
  native  by PyTorch's own kernel in that dtype
  once    in float32, from inputs that are halves, and rounded to the half once,
          which is what kernels/kernel.h asks for. Used where PyTorch's CPU has
          no such kernel, or rounds on the way (mean divides a rounded sum;
          broadcast gradients are rounded before they are summed; a weight
          gradient that is wanted in float32): wherever its own kernel is not
          within one unit of the single rounding.

A line of ops.txt:

    op how; name=value ...; inputs; outputs

Tensors are dtype[dims], '@' for channels-last memory, '=N' for tensor N of
ops.safetensors (in memory order), '-' where absent, '=?' where nothing is
compared; '!' behind N: each element is either 0 or that (dropout).
"""
import datetime
import json
import math
import os
import struct
import sys
import zlib

import torch
import torch.nn.functional as F

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SHORT = {F32: "f32", F16: "f16", BF16: "bf16", torch.int32: "i32",
         torch.bool: "bool"}
STORED = {F32: "F32", F16: "F16", BF16: "BF16", torch.int32: "I32",
          torch.bool: "U8"}
ALL = (F32, F16, BF16)
lines, store, keys = [], [], {}


# ---- inputs -----------------------------------------------------------------

def rand(name, *shape, low=-1.5, high=1.5):
    """Multiples of 1/64 in [low, high]: the same in all three dtypes."""
    n, s, out = math.prod(shape), zlib.crc32(name.encode()), []
    span = int((high - low) * 64) + 1
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        out.append(low + (s >> 33) % span / 64)
    return torch.tensor(out, dtype=F32).reshape(shape)


def ids(name, limit, *shape):
    n, s, out = math.prod(shape), zlib.crc32(name.encode()), []
    for _ in range(n):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2 ** 64
        out.append((s >> 33) % limit)
    return torch.tensor(out, dtype=torch.int32).reshape(shape)


def bits(name, *shape):
    return ids(name, 2, *shape).bool()


# ---- the two files ----------------------------------------------------------

class Last:
    """A tensor whose channels (dim 1) lie last in memory."""
    def __init__(self, x):
        self.x = x


def key_of(x):
    raw = (STORED[x.dtype], x.contiguous().view(torch.uint8).numpy().tobytes()
           if x.numel() and x.dim() else x.reshape(1).view(torch.uint8)
           .numpy().tobytes())
    if raw not in keys:
        keys[raw] = len(store)
        store.append(raw + (x.numel(),))
    return keys[raw]


def text_of(t):
    if t is None:
        return "-"
    if isinstance(t, str):  # 'f32[4]=?'
        return t
    if isinstance(t, tuple):  # kept or dropped
        return text_of(t[0]) + "!"
    last = isinstance(t, Last)
    x = (t.x if last else t).detach()
    dims = ",".join(str(d) for d in x.shape)
    at = x.movedim(1, -1) if last else x
    return f"{SHORT[x.dtype]}[{dims}]{'@' * last}={key_of(at)}"


def number(v):
    if isinstance(v, (list, tuple)):
        return ",".join(number(e) for e in v)
    return repr(float(v)) if isinstance(v, float) else str(int(v))


def call(op, params, inputs, outputs, how="native"):
    p = " ".join(f"{k}={number(v)}" for k, v in params.items())
    lines.append(f"{op} {how}; {p}; " + " ".join(map(text_of, inputs)) + "; " +
                 " ".join(map(text_of, outputs)))


def write():
    here = os.path.dirname(os.path.abspath(__file__))
    head, at = {}, 0
    for i, (dtype, raw, n) in enumerate(store):
        head[str(i)] = {"dtype": dtype, "shape": [n],
                        "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(here, "ops.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(raw for _, raw, _ in store)
    with open(os.path.join(here, "ops.txt"), "w", encoding="utf-8") as f:
        f.write(f"# made by oracle_ops.py with torch {torch.__version__} on a "
                f"CPU, {datetime.date.today()}\n")
        f.writelines(line + "\n" for line in lines)


# ---- running ----------------------------------------------------------------

def ulp(x, dtype):
    p, least = {F16: (10, -14), BF16: (7, -126)}[dtype]
    e = torch.floor(torch.log2(x.double().abs().clamp_min(2.0 ** least)))
    return torch.exp2(e - p)


def run(f, xs, dtypes, dy):
    """f and its gradients towards xs, all in the dtypes given; dy: name or
    tensor. Integers and masks in xs are given no gradient."""
    leaf = [x.to(t).requires_grad_() if t is not None else x
            for x, t in zip(xs, dtypes)]
    y = f(*leaf)
    if isinstance(dy, str):
        dy = rand(dy, *y.shape, low=-1.0, high=1.0)
    wanted = [x for x, t in zip(leaf, dtypes) if t is not None]
    grads = iter(torch.autograd.grad(y, wanted, dy.to(y.dtype)))
    return y.detach(), dy, [next(grads) if t is not None else None
                            for t in dtypes]


def near(a, b, dtype):
    a, b = a.double(), b.double()
    slack = ulp(b, dtype) + 2e-6 * b.abs().max().clamp_min(1e-3)
    return bool(((a - b).abs() <= slack).all())


class Result:
    """y, dy and gradients, each as f() left them and rounded once."""
    def __init__(self, f, xs, t, dy="dy", f32=()):
        """f32: inputs that are float32 even where t is a half."""
        dtypes = [None if not x.is_floating_point() else
                  F32 if i in f32 else t for i, x in enumerate(xs)]
        wide = [None if d is None else F32 for d in dtypes]
        if isinstance(dy, str):
            shape = f(*xs).shape
            dy = rand(dy, *shape, low=-1.0, high=1.0)
        y, self.dy, g = run(f, xs, wide, dy)
        self.wide = [None if e is None else e.detach() for e in g]
        once = [y.to(t)] + [None if e is None else e.to(d)
                            for e, d in zip(g, dtypes)]
        self.how, got = ["once"] * len(once), once
        if t is F32:
            self.how = ["native"] * len(once)
        else:
            try:
                y, _, g = run(f, xs, dtypes, dy)
                native = [y] + g
            except (RuntimeError, NotImplementedError):
                native = [None] * len(once)
            got = list(once)
            for i, (a, b) in enumerate(zip(native, once)):
                if a is not None and a.dtype == b.dtype and (
                        near(a, b, t) if b.dtype is t else
                        torch.allclose(a, b, 1e-6, 1e-6)):
                    got[i], self.how[i] = a, "native"
        self.dy = self.dy.to(got[0].dtype)
        self.y, self.g = got[0], got[1:]
        self.y_how, self.g_how = self.how[0], self.how[1:]


def either(last, x):
    return x if x is None or not last else Last(x)


# ---- products ---------------------------------------------------------------

def product(op, f, params, x, w, b, last, dx="dx", dw="dw", flip=False,
            bias_op="bias_grad"):
    for t in ALL:
        xs = [x, w] if b is None else [x, w, b]
        r = Result(f, xs, t)
        X, W, B = x.to(t), w.to(t), None if b is None else b.to(t)
        y, dy = either(last, r.y), either(last, r.dy)
        call(op, params, [either(last, X), W, B], [y], r.y_how)
        call(f"{op}_{dx}", params, [dy, W], [either(last, r.g[0])], r.g_how[0])
        other = [dy, either(last, X)]
        call(f"{op}_{dw}", params, other, [r.wide[1]], "once")
        if t is not F32:
            call(f"{op}_{dw}", params, other, [r.g[1]], r.g_how[1])
        if b is not None:
            call(bias_op, {}, [dy], [r.wide[2]], "once")
            if t is not F32:
                call(bias_op, {}, [dy], [r.g[2]], r.g_how[2])


def products():
    product("linear", F.linear, {}, rand("x", 5, 7), rand("w", 3, 7),
            rand("b", 3), False)
    product("linear", F.linear, {}, rand("x3", 2, 3, 9), rand("w9", 4, 9),
            None, False)
    for k, (s, p, d, g, bias) in enumerate([
            ((1, 1), (1, 1), (1, 1), 1, True),
            ((2, 1), (1, 0), (1, 2), 2, True),
            ((1, 2), (0, 1), (1, 1), 4, False)]):
        x, w = rand(f"i{k}", 2, 4, 6, 5), rand(f"k{k}", 4, 4 // g, 3, 2)
        product("conv2d", lambda x, w, b=None: F.conv2d(x, w, b, s, p, d, g),
                {"conv.stride": s, "conv.padding": p, "conv.dilation": d,
                 "conv.groups": g}, x, w, rand("b4", 4) if bias else None,
                True)
    for s, p, d, g in ((1, 1, 1, 1), (2, 2, 2, 2)):
        product("conv1d", lambda x, w, b: F.conv1d(x, w, b, s, p, d, g),
                {"conv.stride": (1, s), "conv.padding": (0, p),
                 "conv.dilation": (1, d), "conv.groups": g},
                rand("s", 2, 4, 9), rand(f"s{g}", 6, 4 // g, 3), rand("b6", 6),
                True)
    for s, p, o, d, g in (((1, 1), (0, 1), (0, 0), (1, 1), 1),
                          ((2, 2), (1, 0), (1, 0), (1, 1), 2),
                          ((2, 1), (1, 1), (0, 0), (1, 2), 1)):
        product("conv_transpose2d",
                lambda x, w, b: F.conv_transpose2d(x, w, b, s, p, o, g, d),
                {"conv.stride": s, "conv.padding": p, "conv.dilation": d,
                 "conv.groups": g, "conv.output_padding": o},
                rand("t", 2, 4, 4, 3), rand(f"t{g}", 4, 6 // g, 3, 2),
                rand("b6", 6), True)
    for ta in (False, True):
        for tb in (False, True):
            a = rand("a", 2, 3, *((5, 4) if ta else (4, 5)))
            b = rand("b", 2, 3, *((6, 5) if tb else (5, 6)))
            p = {"matmul.a_transposed": ta, "matmul.b_transposed": tb}
            for t in ALL:
                r = Result(lambda a, b: torch.matmul(
                    a.mT if ta else a, b.mT if tb else b), [a, b], t)
                A, B = a.to(t), b.to(t)
                call("matmul", p, [A, B], [r.y], r.y_how)
                call("matmul_da", p, [r.dy, B], [r.g[0]], r.g_how[0])
                call("matmul_db", p, [r.dy, A], [r.g[1]], r.g_how[1])


def attend(q, k, v, heads, scale, causal, mask):
    """(y, lse): by scaled_dot_product_attention, and by logsumexp."""
    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    q, k, v = split(q), split(k), split(v)
    t, s = q.shape[2], k.shape[2]
    if mask is not None and mask.dim() == 2 and mask.shape == (
            q.shape[0], s) and mask.shape != (t, s):
        mask = mask[:, None, None, :]
    elif mask is not None and mask.dim() == 3:
        mask = mask[:, None]
    if causal:
        mask = torch.ones(t, s, dtype=torch.bool).tril(s - t)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    scores = (q.float() @ k.float().mT) * scale
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return y.transpose(1, 2).flatten(2), torch.logsumexp(scores, -1).detach()


def attention():
    """PyTorch's CPU kernels keep scores of halves in other precisions from
    shape to shape: where they are not within one unit, once."""
    name, heads = "scaled_dot_product_attention", 2
    for what, b, t, s, c, causal, mask in (
            ("packed", 2, 5, 5, 6, True, None),
            ("packed", 1, 7, 7, 8, False, bits("m", 7, 7)),
            ("cross", 2, 3, 5, 6, False, bits("keys", 2, 5)),
            ("cross", 2, 3, 4, 6, True, None),
            ("cross", 2, 2, 5, 4, False, bits("keys", 2, 1, 5)),
            ("cross", 2, 3, 4, 4, False, bits("full", 2, 3, 4))):
        if mask is not None:
            mask.view(-1)[::3] = True
            if what == "cross" and mask.shape[1] == 3:
                mask[1, 1] = False  # a row that may look at nothing
        scale = 1.0 / math.sqrt(c // heads)
        p = {"attention.n_heads": heads, "attention.causal": causal,
             "attention.scale": scale}
        q, k, v = (rand(n + what, b, d, c, low=-1, high=1)
                   for n, d in (("q", t), ("k", s), ("v", s)))
        for dtype in ALL:
            if what == "packed":
                x = torch.cat([q, k, v], -1)
                xs = [x]
                r = Result(lambda x: attend(*x.chunk(3, -1), heads, scale,
                                            causal, mask)[0], xs, dtype)
                ins = [x.to(dtype), None, None, mask]
                grads, hows = [r.g[0], None, None], r.g_how
            else:
                xs = [q, k, v]
                r = Result(lambda q, k, v: attend(q, k, v, heads, scale,
                                                  causal, mask)[0], xs, dtype)
                ins = [e.to(dtype) for e in xs] + [mask]
                grads, hows = r.g, r.g_how
            # A row that may look at nothing: zeros, -inf, no gradient.
            lse = attend(q, k, v, heads, scale, causal, mask)[1]
            assert all(bool(g.isfinite().all()) for g in r.g)
            call(name, p, ins, [r.y, lse], r.y_how)
            call(name + "_bwd", p, [r.dy] + ins + [r.y, lse], grads,
                 "native" if set(hows) == {"native"} else "once")


def embedding():
    for padding in (None, 2):
        p = {} if padding is None else {"embedding.has_padding": True,
                                        "embedding.padding_index": padding}
        i = ids("ids", 5, 3, 4)
        r = Result(lambda i, w: F.embedding(i, w, padding_idx=padding),
                   [i, rand("table", 5, 6)], F32)
        call("embedding", p, [i, rand("table", 5, 6)], [r.y])
        call("embedding_bwd", p, [r.dy, i], [r.g[1]])
    for shape, n, last in (((4, 3), 3, False), ((2, 3, 4, 2), 3, True),
                           ((5, 7), 1, False)):
        for t in ALL:
            x, w = rand("p", *shape), rand("slope", n, low=0.0, high=0.5)
            r = Result(F.prelu, [x, w], t)
            X, dy = either(last, x.to(t)), either(last, r.dy)
            call("prelu", {}, [X, w.to(t)], [either(last, r.y)], r.y_how)
            call("prelu_dx", {}, [dy, X, w.to(t)], [either(last, r.g[0])],
                 r.g_how[0])
            call("prelu_dw", {}, [dy, X], [r.wide[1]], "once")


# ---- norms ------------------------------------------------------------------

def batch_norm():
    eps = 1e-5
    p = {"batch_norm.eps": eps}
    for shape, affine in (((6, 3), True), ((3, 4, 3, 2), True),
                          ((3, 4, 3, 2), False), ((2, 3, 5), True)):
        c, last = shape[1], len(shape) > 2
        dims = [i for i in range(len(shape)) if i != 1]
        w = rand("gamma", c, low=0.5, high=1.5) if affine else None
        b = rand("beta", c) if affine else None
        for t in ALL:
            x = rand("bn", *shape)
            xs, f32 = ([x, w, b], (1, 2)) if affine else ([x], ())
            r = Result(lambda x, w=None, b=None: F.batch_norm(
                x, None, None, w, b, True, 0.1, eps), xs, t, f32=f32)
            X, dy = either(last, x.to(t)), either(last, r.dy)
            mean, var = x.mean(dims), x.var(dims, unbiased=False)
            call("batch_norm", p, [X, w, b], [either(last, r.y), mean, var],
                 r.y_how)
            dw, db = r.wide[1:] if affine else (None, None)
            call("batch_norm_bwd", p, [dy, X, w, mean, var],
                 [either(last, r.g[0]), dw, db], r.g_how[0])
            rm, rv = rand("rm", c), rand("rv", c, low=0.5, high=2.0)
            e = Result(lambda x, w=None, b=None: F.batch_norm(
                x, rm, rv, w, b, False, 0.1, eps), xs, t, f32=f32)
            call("batch_norm_eval", p, [X, w, b, rm, rv],
                 [either(last, e.y)], e.y_how)
            if t is F32:
                am, av = rm.clone(), rv.clone()
                F.batch_norm(x, am, av, w, b, True, 0.3, eps)
                call("stats_track", {"batch_norm.momentum": 0.3,
                                     "batch_norm.n": x.numel() // c},
                     [rm, rv, mean, var], [am, av])


def norms():
    for shape, n_dims, affine in (((5, 7), 1, True), ((2, 3, 4, 5), 2, True),
                                  ((3, 9), 1, False)):
        inner = shape[-n_dims:]
        dims = list(range(len(shape) - n_dims, len(shape)))
        x = rand("ln", *shape)
        w = rand("lw", *inner, low=0.5, high=1.5) if affine else None
        b = rand("lb", *inner) if affine else None
        xs = [x, w, b] if affine else [x]
        p = {"layer_norm.eps": 1e-5, "layer_norm.n_dims": n_dims}
        r = Result(lambda x, w=None, b=None: F.layer_norm(x, inner, w, b), xs,
                   F32)
        _, mean, rstd = torch.native_layer_norm(x, inner, w, b, 1e-5)
        mean, rstd = (e.reshape(shape[:-n_dims]) for e in (mean, rstd))
        g = r.g if affine else [r.g[0], None, None]
        call("layer_norm", p, [x, w, b], [r.y, mean, rstd])
        call("layer_norm_bwd", p, [r.dy, x, w, mean, rstd], g)
        xs = xs[:2]
        r = Result(lambda x, w=None: F.rms_norm(x, inner, w, 1e-5), xs, F32)
        rstd = torch.rsqrt((x * x).mean(dims) + 1e-5)
        call("rms_norm", p, [x, w], [r.y, rstd])
        call("rms_norm_bwd", p, [r.dy, x, w, rstd],
             [r.g[0], r.g[1] if affine else None])
    for shape, groups, affine in (((3, 6), 3, True), ((2, 6, 3, 2), 2, True),
                                  ((2, 4, 3, 3), 1, False)):
        c, last = shape[1], len(shape) > 2
        x = rand("gn", *shape)
        w = rand("gw", c, low=0.5, high=1.5) if affine else None
        b = rand("gb", c) if affine else None
        r = Result(lambda x, w=None, b=None: F.group_norm(x, groups, w, b),
                   [x, w, b] if affine else [x], F32)
        _, mean, rstd = torch.native_group_norm(
            x, w, b, shape[0], c, math.prod(shape[2:]), groups, 1e-5)
        p = {"group_norm.eps": 1e-5, "group_norm.n_groups": groups}
        X, dy = either(last, x), either(last, r.dy)
        g = r.g if affine else [r.g[0], None, None]
        call("group_norm", p, [X, w, b], [either(last, r.y), mean, rstd])
        call("group_norm_bwd", p, [dy, X, w, mean, rstd],
             [either(last, g[0])] + g[1:])


# ---- axes and sums ----------------------------------------------------------

def axes():
    for axis in (0, 1, 2):
        x, p = rand("ax", 3, 5, 4), {"axis.axis": axis}
        for op, f in (("softmax", torch.softmax),
                      ("log_softmax", torch.log_softmax)):
            r = Result(lambda x: f(x, axis), [x], F32)
            call(op, p, [x], [r.y])
            call(op + "_bwd", p, [r.dy, r.y], [r.g[0]])
        r = Result(lambda x: torch.cumsum(x, axis), [x], F32)
        call("cumsum", p, [x], [r.y])
        call("cumsum_bwd", p, [r.dy], [r.g[0]])
        for zeros in (0, 1, 2):  # in the first product
            z = x.clone()
            z.movedim(axis, 0)[:zeros, 0, 0] = 0
            keep = zeros == 1
            r = Result(lambda x: torch.prod(x, axis, keep), [z], F32)
            q = dict(p, **{"axis.keepdim": keep})
            call("prod", q, [z], [r.y])
            call("prod_bwd", q, [r.dy, z], [r.g[0]])
        b, q = rand("other", 3, 5, 4), dict(p, **{"axis.eps": 1e-8})
        r = Result(lambda a, b: F.cosine_similarity(a, b, axis, 1e-8), [x, b],
                   F32)
        call("cosine_similarity", q, [x, b], [r.y])
        call("cosine_similarity_bwd", q, [r.dy, x, b], r.g)
        for t in ALL:
            parts = [rand(f"c{i}", *[2 + i if d == axis else 3
                                     for d in range(3)]) for i in range(3)]
            P = [e.to(t) for e in parts]
            call("cat", p, P + [None] * 5, [torch.cat(P, axis)])
            same = [e.to(t) for e in (rand("s0", 3, 4), rand("s1", 3, 4))]
            stacked = torch.stack(same, axis)
            call("stack", p, same + [None] * 6, [stacked])
            call("stack_bwd", dict(p, **{"axis.start": 1}), [stacked],
                 [same[1]])
            n = {"axis.axis": axis, "axis.start": 1, "axis.length": 2}
            r = Result(lambda x: x.narrow(axis, 1, 2), [x], t)
            call("narrow", n, [x.to(t)], [r.y], r.y_how)
            call("narrow_bwd", n, [r.dy], [r.g[0]], r.g_how[0])


def reductions():
    x = rand("red", 3, 4, 5)
    for dims in ((0,), (2,), (0, 2), (1, 2), (0, 1, 2)):
        mask = sum(1 << d for d in dims)
        keep = dims == (0, 2)
        p = {"reduce.dims": mask, "reduce.keepdim": keep}
        r = Result(lambda x: torch.sum(x, dims, keep), [x], F32)
        call("sum", p, [x], [r.y])
        call("sum_bwd", p, [r.dy], [r.g[0]])
        r = Result(lambda x: torch.logsumexp(x, dims, keep), [x], F32)
        call("logsumexp", p, [x], [r.y])
        call("logsumexp_bwd", p, [r.dy, x, r.y], [r.g[0]])
        for n in (1.0, 2.0, 3.0, math.inf):
            # Two equal maxima share the gradient; which of them is not asked.
            z = x if n != math.inf else x + torch.arange(60).reshape(
                3, 4, 5) / 1024
            q = dict(p, **{"reduce.p": n})
            r = Result(lambda x: torch.linalg.vector_norm(x, n, dims, keep),
                       [z], F32)
            call("norm", q, [z], [r.y])
            call("norm_bwd", q, [r.dy, z, r.y], [r.g[0]])
        for t in ALL:
            r = Result(lambda x: torch.mean(x, dims, keep), [x], t)
            call("mean", p, [x.to(t)], [r.y], r.y_how)
            call("mean_bwd", p, [r.dy], [r.g[0]], r.g_how[0])


# ---- functions of each element ----------------------------------------------

def elementwise():
    x = rand("e", 63, low=-6.0, high=6.0)
    far = torch.tensor([0.0, -0.0, 0.5, -0.5, 9.0, -9.0, 30.0, -30.0, 2.0 ** -9,
                        -2.0 ** -9])
    x = torch.cat([x, far]).to(BF16).float()
    x = torch.where(x.to(F16).float() == x, x, torch.zeros(()))
    for op, f, saved, p in (
            ("relu", torch.relu, "y", {}), ("tanh", torch.tanh, "y", {}),
            ("sigmoid", torch.sigmoid, "y", {}), ("silu", F.silu, "x", {}),
            ("gelu", F.gelu, "x", {"gelu.tanh": False}),
            ("gelu", lambda x: F.gelu(x, approximate="tanh"), "x",
             {"gelu.tanh": True})):
        for t in ALL:
            r = Result(f, [x], t)
            call(op, p, [x.to(t)], [r.y], r.y_how)
            if saved == "y":
                # From the y that was stored, as both do.
                y = r.y.float()
                wide = r.dy.float() * {"relu": (y > 0).float(),
                                       "tanh": 1 - y * y,
                                       "sigmoid": y * (1 - y)}[op]
                near_y = t is F32 or near(r.g[0], wide.to(t), t)
                call(op + "_bwd", p, [r.dy, r.y],
                     [r.g[0] if near_y else wide.to(t)],
                     r.g_how[0] if near_y else "once")
            else:
                call(op + "_bwd", p, [r.dy, x.to(t)], [r.g[0]], r.g_how[0])
    positive = rand("pos", 70, low=0.125, high=7.0)
    for op, f, z, saved, p in (
            ("exp", torch.exp, x, "y", {}),
            ("log", torch.log, positive, "x", {}),
            ("reciprocal", torch.reciprocal, positive, "y", {}),
            ("rsqrt", torch.rsqrt, positive, "y", {}),
            ("softplus", lambda x: F.softplus(x, 2.0, 10.0), x, "x",
             {"softplus.beta": 2.0, "softplus.threshold": 10.0})):
        r = Result(f, [z], F32)
        call(op, p, [z], [r.y])
        call(op + "_bwd", p, [r.dy, r.y if saved == "y" else z], [r.g[0]])
    for e in (2.0, 0.5, -1.5, 3.0, 0.0):
        z = positive if e != int(e) else x
        r = Result(lambda x: torch.pow(x, e), [z], F32)
        call("pow", {"pow.exponent": e}, [z], [r.y])
        call("pow_bwd", {"pow.exponent": e}, [r.dy, z], [r.g[0]])
    for t in ALL:
        v, q = rand("drop", 200).to(t), {"dropout.p": 0.25,
                                         "dropout.stream": 3}
        kept = (v.float() * (1.0 / 0.75)).to(t)
        call("dropout", q, [v], [(kept,)], "once")
        call("dropout_bwd", q, [v], [(kept,)], "once")


def casts():
    odd = torch.tensor([65504, 65519.996, 65520, 1e-8, 2.0 ** -24, 2.0 ** -25,
                        -0.0, 1.00048828125, 1.00146484375, 3.3895e38, 1e-40,
                        math.inf, -math.inf, 1.00390625, 1.01171875])
    wide = torch.cat([rand("cast", 40) * 1.0009765, odd])
    for a in ALL:
        for b in ALL:
            if a is not b:
                call("cast", {}, [wide.to(a)], [wide.to(a).to(b)])
    for scale in (65536.0, 1024.0, 1.5):
        loss, s = torch.tensor(2.71875), torch.tensor(scale)
        call("scale_loss", {}, [loss, s], [loss * s])


# ---- two operands -----------------------------------------------------------

def broadcast():
    ops = {"add": torch.add, "sub": torch.sub, "mul": torch.mul,
           "div": torch.div}
    for sa, sb in (((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (5,)),
                   ((3, 1, 5), (4, 1)), ((4,), (2, 3, 4))):
        a, b = rand("ba", *sa), rand("bb", *sb, low=0.5, high=2.0)
        for t in ALL:
            A, B = a.to(t), b.to(t)
            for op, f in ops.items():
                r = Result(f, [a, b], t)
                call(op, {}, [A, B], [r.y], r.y_how)
                if op in ("add", "sub") and t is F32:
                    call("sum_to", {}, [r.dy], [r.g[0]], r.g_how[0])
                if op == "add" and t is not F32:
                    call("sum_to", {}, [r.dy], [r.g[1]], r.g_how[1])
                if op == "sub":
                    call("sum_to_neg", {}, [r.dy], [r.g[1]], r.g_how[1])
                if op == "mul":
                    call("mul_bwd", {}, [r.dy, B], [r.g[0]], r.g_how[0])
                    call("mul_bwd", {}, [r.dy, A], [r.g[1]], r.g_how[1])
                if op == "div":
                    call("div_bwd_a", {}, [r.dy, B], [r.g[0]], r.g_how[0])
                    call("div_bwd_b", {}, [r.dy, A, B], [r.g[1]], r.g_how[1])
            whole = torch.broadcast_shapes(sa, sb)
            c = bits("cond", *whole[len(sb) == 3:])
            r = Result(torch.where, [c, a, b], t)
            call("where", {}, [c, A, B], [r.y], r.y_how)
            call("where_bwd_a", {}, [r.dy, c], [r.g[1]], r.g_how[1])
            call("where_bwd_b", {}, [r.dy, c], [r.g[2]], r.g_how[2])
            for k, f in enumerate((torch.eq, torch.ne, torch.lt, torch.le,
                                   torch.gt, torch.ge)):
                z = A.clone()
                z.view(-1)[0] = math.nan
                call("compare", {"compare.how": k}, [z, B], [f(z, B)])
    for t in ALL:
        a = rand("ba", 3, 4, 5)
        A = a.to(t)
        for op, f in ops.items():
            r = Result(lambda a: f(a, 0.75), [a], t)
            p = {"binary.value": 0.75}
            call(op, p, [A, None], [r.y], r.y_how)
            if op == "mul":
                call("mul_bwd", p, [r.dy, None], [r.g[0]], r.g_how[0])
            if op == "div":
                call("div_bwd_a", p, [r.dy, None], [r.g[0]], r.g_how[0])
        call("compare", {"compare.how": 2, "compare.value": 0.25}, [A, None],
             [A < 0.25])


# ---- pools and shapes -------------------------------------------------------

def pools():
    distinct = (ids("order", 1, 2 * 3 * 7 * 6) + torch.arange(
        252, dtype=torch.int32) * 37 % 256).float().reshape(2, 3, 7, 6) / 64 - 2
    for k, s, pad in (((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 1), (1, 1))):
        p = {"pool.kernel": k, "pool.stride": s, "pool.padding": pad}
        for t in ALL:
            x = distinct
            r = Result(lambda x: F.max_pool2d(x, k, s, pad), [x], t)
            index = F.max_pool2d(x, k, s, pad, return_indices=True)[1].int()
            call("max_pool2d", p, [Last(x.to(t))], [Last(r.y), Last(index)],
                 r.y_how)
            call("max_pool2d_bwd", p, [Last(r.dy), Last(index)],
                 [Last(r.g[0])], r.g_how[0])
            for include in (True, False):
                q = dict(p, **{"pool.count_include_pad": include})
                r = Result(lambda x: F.avg_pool2d(
                    x, k, s, pad, count_include_pad=include), [x], t)
                call("avg_pool2d", q, [Last(x.to(t))], [Last(r.y)], r.y_how)
                call("avg_pool2d_bwd", q, [Last(r.dy)], [Last(r.g[0])],
                     r.g_how[0])
    for size in ((1, 1), (3, 4), (7, 2)):
        for t in ALL:
            x = rand("ad", 2, 3, 7, 6)
            r = Result(lambda x: F.adaptive_avg_pool2d(x, size), [x], t)
            call("adaptive_avg_pool2d", {}, [Last(x.to(t))], [Last(r.y)],
                 r.y_how)
            call("adaptive_avg_pool2d_bwd", {}, [Last(r.dy)], [Last(r.g[0])],
                 r.g_how[0])
    for size, mode, corners in (((5, 9), "nearest", False),
                                ((5, 9), "bilinear", False),
                                ((5, 9), "bilinear", True),
                                ((2, 1), "bilinear", False)):
        x = rand("up", 2, 3, 3, 4)
        r = Result(lambda x: F.interpolate(
            x, size, mode=mode, align_corners=corners if mode == "bilinear"
            else None), [x], F32)
        p = {"upsample.mode": int(mode == "bilinear"),
             "upsample.align_corners": corners}
        call("upsample", p, [Last(x)], [Last(r.y)])
        call("upsample_bwd", p, [Last(r.dy)], [Last(r.g[0])])


def shapes():
    for t in ALL:
        x = rand("sh", 2, 3, 4, 5).to(t)
        call("flatten", {}, [Last(x)], [x.flatten(1)])
        call("unflatten", {}, [x.flatten(1)], [Last(x)])
        call("relayout", {}, [Last(x)], [x])
        call("relayout", {}, [x], [Last(x)])
        call("reshape", {}, [x], [x.reshape(6, 20)])
        for a, b in ((0, 1), (1, 3), (2, 3)):
            call("transpose", {"transpose.dim0": a, "transpose.dim1": b}, [x],
                 [x.transpose(a, b).contiguous()])


# ---- losses and metrics -----------------------------------------------------

def loss(op, f, p, x, target, last=False):
    """PyTorch's sum, times 1 / (what counts), which the engine is given."""
    inv = torch.tensor(0.0625)
    z = x.clone().requires_grad_()
    y = f(z, target) * inv
    dloss = torch.tensor(1.5)
    y.backward(dloss)
    X = either(last, x)
    t = target.int() if target.dtype == torch.int64 else either(last, target)
    call(op, p, [X, t, inv], [y.detach()])
    call(op + "_bwd", p, [dloss, X, t, inv], [either(last, z.grad)])


def losses():
    for smooth, ignore in ((0.0, None), (0.1, None), (0.1, 1), (0.0, -100)):
        for shape, last in (((6, 5), False), ((2, 5, 3, 2), True)):
            x = rand("lo", *shape, low=-4.0, high=4.0)
            target = ids("cls", 5, *(shape[:1] + shape[2:])).long()
            if ignore is not None:
                target.view(-1)[1] = ignore
            p = {"loss.label_smoothing": smooth}
            if ignore is not None:
                p.update({"loss.has_ignore_index": True,
                          "loss.ignore_index": ignore})
            loss("cross_entropy", lambda x, t: F.cross_entropy(
                x, t, reduction="sum", label_smoothing=smooth,
                ignore_index=-100 if ignore is None else ignore), p, x, target,
                last)
            if smooth == 0.0:
                logp = torch.log_softmax(x, 1)
                q = {k: v for k, v in p.items() if "smooth" not in k}
                loss("nll_loss", lambda x, t: F.nll_loss(
                    x, t, reduction="sum",
                    ignore_index=-100 if ignore is None else ignore), q, logp,
                    target, last)
    x, t = rand("lx", 5, 7, low=-3.0, high=3.0), rand("lt", 5, 7)
    t.view(-1)[3] = x.view(-1)[3]
    for op, f, p in (
            ("mse", F.mse_loss, {}), ("l1", F.l1_loss, {}),
            ("smooth_l1", lambda x, t, reduction: F.smooth_l1_loss(
                x, t, reduction=reduction, beta=0.75), {"loss.beta": 0.75}),
            ("huber", lambda x, t, reduction: F.huber_loss(
                x, t, reduction=reduction, delta=0.75), {"loss.delta": 0.75})):
        loss(op, lambda x, t: f(x, t, reduction="sum"), p, x, t)
    y = rand("prob", 5, 7, low=0.0, high=1.0)
    far = x.clone()
    far.view(-1)[:4] = torch.tensor([20.0, -20.0, 90.0, -90.0])
    loss("bce_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(
        x, t, reduction="sum"), {}, far, y)
    logp = torch.log_softmax(x, 1)
    prob = torch.softmax(rand("kl", 5, 7), 1)
    prob.view(-1)[2] = 0
    for target, is_log, factor in ((prob, False, 1.0),
                                   (torch.log_softmax(rand("kl", 5, 7), 1),
                                    True, 0.5)):
        loss("kl_div", lambda x, t: F.kl_div(
            x, t, reduction="sum", log_target=is_log) * factor,
            {"loss.log_target": is_log, "loss.factor": factor}, logp, target)


def metrics():
    # Distinct scores in a row: which of two equal ones comes first is ours.
    x = torch.stack([(torch.arange(5) * 3 + i) % 5 for i in range(9)]).float()
    target = ids("hit", 5, 9)
    for t in ALL:
        for k in (1, 2):
            hits = (x.topk(k, 1).indices == target[:, None].long()).any(1)
            call("correct", {"loss.k": k}, [x.to(t), target],
                 [hits.sum().float()])
        table = torch.zeros(5, 5)
        for want, got in zip(target.tolist(), x.argmax(1).tolist()):
            table[want, got] += 1
        call("confusion", {"loss.k": 1}, [x.to(t), target], [table])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for make in (products, attention, embedding, batch_norm, norms, axes,
                 reductions, elementwise, casts, broadcast, pools, shapes,
                 losses, metrics):
        make()
    write()
    print(f"{len(lines)} calls of {len({s.split()[0] for s in lines})} ops, "
          f"{len(store)} tensors")
    if "-v" in sys.argv:
        for op in sorted({s.split()[0] for s in lines}):
            hows = [s.split()[1] for s in lines if s.split()[0] == op]
            print(f"{op}: {hows.count('native;')} native, "
                  f"{hows.count('once;')} once")


if __name__ == "__main__":
    main()
