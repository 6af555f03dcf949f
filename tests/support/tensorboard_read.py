# SPDX-License-Identifier: Apache-2.0
"""What TensorBoard itself makes of a directory: {tag: [[step, value]]} as JSON.

Run by $TRAIND_VENV/bin/python; exits with 77 where there is no TensorBoard.
"""
import json
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator
except ImportError as e:
    print(e, file=sys.stderr)
    sys.exit(77)

accumulator = event_accumulator.EventAccumulator(
    sys.argv[1], size_guidance={event_accumulator.SCALARS: 0})
accumulator.Reload()
print(json.dumps({tag: [[s.step, s.value] for s in accumulator.Scalars(tag)]
                  for tag in accumulator.Tags()["scalars"]}))
