# SPDX-License-Identifier: Apache-2.0
"""TensorBoard's event files, read by the format alone and strictly.

Every checksum is checked, every protobuf is decoded field by field without a
schema, and half a record at the end of a file is an error.
"""
import glob
import os
import struct


def remainder(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


REMAINDERS = [remainder(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ REMAINDERS[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(raw):
    """The contents of whole records."""
    at = 0
    while at < len(raw):
        head = raw[at:at + 12]
        n, crc = struct.unpack("<QI", head)
        assert crc == masked(head[:8]), f"checksum of the length at {at}"
        data = raw[at + 12:at + 12 + n]
        assert len(data) == n, f"half a record at {at}"
        crc, = struct.unpack("<I", raw[at + 12 + n:at + 16 + n])
        assert crc == masked(data), f"checksum of the record at {at}"
        yield data
        at += 16 + n


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """[(number, value)]: int, float of either size, or bytes."""
    at, out = 0, []
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
            assert len(value) == n, "half a field"
        else:
            form, n = {1: ("<d", 8), 5: ("<f", 4)}[kind]
            (value,), at = struct.unpack(form, data[at:at + n]), at + n
        out.append((key >> 3, value))
    return out


def event(data):
    """A record as a dict: wall_time, step, and what it has of the rest."""
    out = {"wall_time": 0.0, "step": 0}
    for number, value in fields(data):
        if number == 1:
            out["wall_time"] = value
        elif number == 2:
            out["step"] = value
        elif number == 3:
            out["file_version"] = value.decode()
        elif number == 7:
            out["session"] = dict(fields(value))
        else:
            assert number == 5, f"field {number} of an event"
            out["scalars"] = {}
            for one, entry in fields(value):
                assert one == 1, f"field {one} of a summary"
                entry = dict(fields(entry))
                assert sorted(entry) == [1, 2], f"a value with {entry}"
                out["scalars"][entry[1].decode()] = entry[2]
    return out


def read_file(path):
    with open(path, "rb") as f:
        return [event(data) for data in records(f.read())]


def paths(folder):
    """Event files in the order in which TensorBoard takes them."""
    return sorted(glob.glob(os.path.join(folder, "*tfevents*")))


def curves(folder):
    """tag -> [(step, value)] as is left when each start of a session but the
    first has purged its step and what is beyond."""
    out, started = {}, False
    for path in paths(folder):
        for e in read_file(path):
            if e.get("session") == {1: 1}:
                if started:
                    for tag in out:
                        out[tag] = [p for p in out[tag] if p[0] < e["step"]]
                started = True
            for tag, value in e.get("scalars", {}).items():
                out.setdefault(tag, []).append((e["step"], value))
    return out
