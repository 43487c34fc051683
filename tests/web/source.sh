#!/usr/bin/env bash
# The sources of the page: types, unit tests, and that the page that is checked in is what they give.
#
# usage: source.sh WEB_FOLDER
set -euo pipefail
cd "$1"
[ -d node_modules ] || { echo "no node_modules in $1: run 'npm ci' there (./run test does)" >&2; exit 1; }
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT

npm run --silent check
npm test --silent
node build.mjs "$built/page.html"
for file in page.html THIRD-PARTY.txt; do
  cmp "$built/$file" "dist/$file" ||
    { echo "dist/$file is not what web/ gives: run 'npm run build' in web/ and commit it" >&2; exit 1; }
done
