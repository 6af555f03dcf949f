# SPDX-License-Identifier: Apache-2.0
"""Two users of one machine, and what is theirs alone."""
import os
import pwd

from scenario import blobs, check


def two_accounts():
    """Any two that are not root; every system has some."""
    some = [a for a in pwd.getpwall() if 0 < a.pw_uid < 65534]
    check(len({a.pw_uid for a in some[:2]}) == 2, "two accounts")
    return some[:2]


def private_data(d, account):
    """Data that only its owner may read."""
    folder = os.path.join(d.dir, f"of-{account.pw_name}")
    os.mkdir(folder, 0o755)
    blobs(folder)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        os.chmod(path, 0o600)
        os.chown(path, account.pw_uid, account.pw_gid)
    return folder
