#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A byte GPT learns a text that repeats itself, and goes on with it."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["TRAIND_SOURCE"], "tests/support"))
from scenario import Daemon, check, equal, main, npy, write_spec

PATTERN = "the cat sat on the mat. "


def gpt_spec(folder, **changes):
    with open(f"{folder}/text.txt", "w", encoding="ascii") as f:
        f.write(PATTERN * 400)
    spec = {
        "name": "tiny-gpt",
        "seed": 3,
        "data": {
            "train": {"format": "text", "input": f"{folder}/text.txt",
                      "part": [0, 0.9]},
            "validation": {"format": "text", "input": f"{folder}/text.txt",
                           "part": [0.9, 1]},
            "sequence_length": 32, "batch_size": 8},
        "model": {"gpt": {"vocab_size": 256, "block_size": 32, "n_layer": 1,
                          "n_head": 2, "n_embd": 32}},
        "loss": "cross_entropy",
        "optimizer": {"adamw": {"lr": 1e-2}},
        "amp": {"dtype": "bfloat16"},
        "train": {"epochs": 100, "max_iterations": 200,
                  "clip_grad_norm": 1.0},
        "evaluate": {"metrics": ["loss", "perplexity"]},
    }
    spec.update(changes)
    return spec


def a_text_goes_on():
    """sample continues the pattern; a seed decides, and not the terminal"""
    with Daemon() as d:
        job = d.submit(gpt_spec(d.dir), "--wait")
        s = d.status(job)
        check(s["perplexity"] < 1.2, f"it knows the text: {s['perplexity']}")
        prompt = "the cat s"
        said = d.ctl("sample", job, "--prompt", prompt, "--tokens", 60,
                     "--temperature", 0)
        equal(said, (PATTERN * 9)[:len(prompt) + 60], "the best bytes")
        # Longer than what the model sees at once.
        said = d.ctl("sample", job, "--prompt", PATTERN * 3, "--tokens", 24,
                     "--temperature", 0)
        equal(said, PATTERN * 4, "the window slides")
        hot = [d.ctl("sample", job, "--prompt", prompt, "--tokens", 40,
                     "--temperature", 3, "--seed", seed) for seed in (1, 1, 2)]
        equal(hot[0], hot[1], "the same seed")
        check(hot[0] != hot[2], "another seed")
        equal(d.ctl("sample", job, "--prompt", prompt, "--tokens", 40,
                    "--temperature", 3, "--top-k", 1),
              (PATTERN * 9)[:len(prompt) + 40], "of one best byte")
        record = d.json("sample", job, "--prompt", prompt, "--tokens", 14,
                        "--temperature", 0)
        equal((record["job"], record["prompt"], record["text"]),
              (job, prompt, PATTERN[len(prompt):len(prompt) + 14]), "as JSON")
        check(record["checkpoint"].startswith("it000000200-"), "of the last")


def ids_go_on():
    """of a job over token ids: each on a line of its own, the prompt apart"""
    with Daemon() as d:
        with open(f"{d.dir}/ids.bin", "wb") as f:
            f.write(struct.pack("<2000H", *[i % 300 for i in range(2000)]))
        spec = gpt_spec(d.dir, train={"max_iterations": 2,
                                      "ema": {"decay": 0.5}}, evaluate={})
        spec["data"] = {"train": {"format": "tokens",
                                  "input": f"{d.dir}/ids.bin",
                                  "token_dtype": "uint16"},
                        "sequence_length": 32, "batch_size": 8}
        spec["model"]["gpt"]["vocab_size"] = 300
        # Every tenth token is none to learn, or to be measured.
        npy(f"{d.dir}/mask.npy", "|u1", (2000,),
            [int(i % 10 != 0) for i in range(2000)])
        spec["data"]["train"]["mask"] = f"{d.dir}/mask.npy"
        spec["data"]["validation"] = dict(spec["data"]["train"], part=[0.9, 1])
        job = d.submit(spec, "--wait")
        n = (200 - 1) // 32 * 32
        equal(d.json("evaluations", job)[-1]["n"],
              sum(i % 10 != 0 for i in range(1801, 1801 + n)), "what counts")
        for ema in ([], ["--ema"]):
            said = d.ctl("sample", job, "--prompt", "7 8 9", "--tokens", 5,
                         *ema)
            lines = said.splitlines()
            equal((lines[0], len(lines)), ("7 8 9", 6), "lines")
            check(all(0 <= int(x) < 300 for x in lines[1:]), said)
        out = d.try_ctl("sample", job, "--prompt", "7 300", "--tokens", 5)
        equal((out.returncode, out.stdout), (65, ""), "only the error")
        check("token 1 is 300, allowed 0..299" in out.stderr, out.stderr)
        # The same file twice: the place is of the part that is too short.
        spec["data"]["validation"]["part"] = [0.99, 1]
        path = write_spec(d.dir, spec)
        out = d.try_ctl("validate", path)
        with open(path, encoding="utf-8") as f:
            lines = f.read().split("\n")
        line = [i for i, x in enumerate(lines, 1) if '"validation"' in x][0]
        check(f":{line}:" in out.stderr and "data.validation: " in out.stderr
              and "20 tokens in this part" in out.stderr, out.stderr)


def what_cannot_go_on_says_why():
    """no checkpoint, no such checkpoint, no language model, a bad number"""
    with Daemon() as d:
        job = d.submit(gpt_spec(d.dir, train={"epochs": 100000}))
        d.wait_iteration(job, 3)
        out = d.try_ctl("sample", job)
        check("has no checkpoint yet" in out.stderr, out.stderr)
        d.ctl("checkpoint", job)
        said = d.ctl("sample", job, "--tokens", 5, "--temperature", 0)
        equal(len(said), 5, "while it trains")
        out = d.try_ctl("sample", job, "--checkpoint", 77)
        check("has no checkpoint 77" in out.stderr, out.stderr)
        out = d.try_ctl("sample", job, "--temperature", "hot")
        equal((out.returncode, "a number from 0" in out.stderr), (2, True),
              "a temperature is a number")
        out = d.try_ctl("sample", job, "--ema")
        check("has no averaged weights: its spec has no train.ema\n" in
              out.stderr, out.stderr)
        d.ctl("cancel", job)
        spec = gpt_spec(d.dir, train={"max_iterations": 2})
        spec["model"] = [{"embedding": {"num_embeddings": 256,
                                        "embedding_dim": 8}},
                         "flatten", {"linear": {"out_features": 32}}]
        out = d.try_ctl("submit", "--wait", write_spec(d.dir, spec))
        check(out.returncode == 65, f"scores for no token: {out.stderr}")


if __name__ == "__main__":
    main(a_text_goes_on, ids_go_on, what_cannot_go_on_says_why)
