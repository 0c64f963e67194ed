# SPDX-License-Identifier: Apache-2.0
"""API keys of a server: those of your account, or as its operator those of everybody.

    from airlock_sandbox.keys import Keys

    made = Keys().create(name="ci")
    made["api_key"]     # the key itself; nobody can tell it a second time
    Keys().revoke(made["key_id"])

The command of the same name is airlock-sandbox-keys.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from typing import Any, Dict, List, Optional, Sequence

from ._http import Connection, Verify, query, segment, verify_from_environment
from .errors import SandboxError

Record = Dict[str, Any]


class Keys:
    """Calls about keys. Errors are those of errors.py, as for a Sandbox.

    api_key: the key to ask with, else SANDBOX_API_KEY, for an operator SANDBOX_ADMIN_KEY.
    base_url: where the server is, else SANDBOX_API_URL.
    admin: ask as the operator, about the keys of all tenants.
    """

    def __init__(
        self,
        api_key: Optional[str] = None,
        base_url: Optional[str] = None,
        *,
        admin: bool = False,
        verify: Optional[Verify] = None,
        timeout: float = 30,
    ) -> None:
        variable = "SANDBOX_ADMIN_KEY" if admin else "SANDBOX_API_KEY"
        base_url = base_url or os.environ.get("SANDBOX_API_URL")
        api_key = api_key or os.environ.get(variable)
        if not base_url or not api_key:
            raise SandboxError(
                "Give base_url and api_key, or set SANDBOX_API_URL and %s." % variable
            )
        self.admin = admin
        self._path = "/v1/admin/keys" if admin else "/v1/keys"
        self._connection = Connection(
            base_url,
            api_key,
            verify_from_environment() if verify is None else verify,
            timeout,
            3,
            user_agent="airlock-sandbox python/" + platform.python_version(),
        )

    def list(self, tenant: Optional[str] = None) -> List[Record]:
        """Records, oldest first, revoked ones too; never the keys. tenant: an operator's choice."""
        path = query(self._path, tenant=(tenant or None) if self.admin else None)
        return self._connection.json("GET", path)["keys"]

    def create(self, name: str = "", tenant: Optional[str] = None) -> Record:
        """A new key's record, with the key as "api_key": this is the only time that it is told.

        An operator says whose it is; a tenant that has none yet begins to exist with it.
        """
        body = {"name": name}
        if self.admin:
            if not tenant:
                raise SandboxError("An operator has to say whose key it is: tenant=...")
            body["tenant"] = tenant
        return self._connection.json("POST", self._path, body)

    def revoke(self, key_id: str) -> Record:
        """Ends a key now, with everything that is open under it. The last one only an operator can."""
        return self._connection.json("DELETE", self._path + "/" + segment(key_id))


def _print_list(records: Sequence[Record]) -> None:
    if not records:
        print("No keys.")
        return
    line = "%-12s %-16s %-20s %-8s %s"
    print(line % ("KEY ID", "TENANT", "NAME", "STATUS", "PREFIX"))
    for record in records:
        print(
            line
            % (
                record["key_id"],
                record["tenant_id"],
                record["name"][:20],
                "active" if record.get("active") else "revoked",
                record.get("prefix", ""),
            )
        )


def _arguments(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="airlock-sandbox-keys",
        description="Lists, makes and revokes API keys of the server at SANDBOX_API_URL, with the "
        "key in SANDBOX_API_KEY or, as its operator, in SANDBOX_ADMIN_KEY.",
    )
    parser.add_argument("--admin", action="store_true", help="as the operator, for all tenants")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="the keys that there are")
    listing.add_argument("--tenant", help="only this tenant's (with --admin)")
    create = commands.add_parser("create", help="a new key, which is shown once")
    create.add_argument("--name", default="", help="what it is for")
    create.add_argument("--tenant", help="whose it is (with --admin)")
    revoke = commands.add_parser("revoke", help="end a key now")
    revoke.add_argument("key_id", metavar="KEY_ID")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    keys = Keys(admin=arguments.admin)
    if arguments.command == "list":
        _print_list(keys.list(arguments.tenant))
    elif arguments.command == "create":
        made = keys.create(arguments.name, arguments.tenant)
        print(
            "Created key %s for tenant %s (%s)."
            % (made["key_id"], made["tenant_id"], made["name"])
        )
        print("\n    %s\n" % made["api_key"])
        print("Keep it somewhere safe: it is shown only once.")
    else:
        gone = keys.revoke(arguments.key_id)
        print(
            "Revoked %s (%s, %s). It stops working immediately."
            % (gone["key_id"], gone["tenant_id"], gone["name"])
        )


def main(argv: Optional[Sequence[str]] = None) -> None:
    """The command airlock-sandbox-keys."""
    try:
        _run(_arguments(argv))
    except SandboxError as error:
        print("airlock-sandbox-keys: %s: %s" % (type(error).__name__, error), file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
