#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What `make run` does after building: gives the server a key of its own, starts it in the foreground,
# shows how to reach it, and runs the README's example against it. Ctrl-C stops it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
state=${SANDBOX_STATE_DIR:-/var/lib/airlock}
listen=${SANDBOX_LISTEN:-127.0.0.1:8000}
python=${PYTHON:-/usr/bin/python3}

die()
{
	printf 'run: %s\n' "$*" >&2
	exit 1
}

[ "$(id -u)" = 0 ] || die "making sandboxes needs root: try sudo make run"

# A key of its own, made once. Keys that the operator set are used as they are instead.
first_key()
{
	local file=$state/state/first.key
	if [ ! -s "$file" ]; then
		install -d -m 0755 "$state"
		install -d -m 0700 -o airlock -g airlock "$state/state"
		(
			umask 077
			"$python" -c 'import secrets; print("first-" + secrets.token_urlsafe(32))' \
				>"$file.new"
		)
		chown airlock:airlock "$file.new"
		mv "$file.new" "$file"
	fi
	cat "$file"
}

if [ -z "${SANDBOX_API_KEY-}${SANDBOX_API_KEYS-}${SANDBOX_KEYSTORE-}" ]; then
	SANDBOX_API_KEY=$(first_key)
	export SANDBOX_API_KEY
fi

# As the server reads its variables: without blanks around a value.
trimmed()
{
	local text=$1
	text=${text#"${text%%[![:blank:]]*}"}
	printf '%s' "${text%"${text##*[![:blank:]]}"}"
}

# Of the first entry that is not empty.
first_static_key()
{
	local rest="$1," entry
	while [ -n "$rest" ]; do
		entry=$(trimmed "${rest%%,*}")
		rest=${rest#*,}
		[ -z "$entry" ] || { trimmed "${entry#*:}"; return; }
	done
}

key=$(trimmed "${SANDBOX_API_KEY-}")
[ -n "$key" ] || key=$(first_static_key "${SANDBOX_API_KEYS-}")

# Where this machine itself reaches the server.
host=${listen%:*}
case $host in
0.0.0.0 | \* | '') host=127.0.0.1 ;;
'[::]') host='[::1]' ;;
esac
url=http://$host:${listen##*:}

SANDBOX_STATE_DIR=$state "$build/airlock" serve &
server=$!
trap 'kill -TERM "$server" 2>/dev/null || true' INT TERM HUP
status=0

case $listen in
unix:*) echo "The server listens on ${listen#unix:}." ;;
*)
	if [ -n "$key" ]; then
		SANDBOX_API_URL=$url SANDBOX_API_KEY=$key \
			"$python" deploy/example.py --server-pid "$server" README.md || status=$?
		# 3: the server ended before it answered; its own words are on stderr already.
		[ "$status" != 3 ] || { wait "$server" || exit $?; exit 1; }
	else
		echo "The server is at $url; its keys are in ${SANDBOX_KEYSTORE}."
	fi
	;;
esac

# The first wait ends with the signal, the second with the server.
wait "$server" && status=0 || status=$?
wait "$server" 2>/dev/null && status=0 || { last=$?; [ "$last" = 127 ] || status=$last; }
exit "$status"
