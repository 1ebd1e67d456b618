#!/usr/bin/env bash
# Pages that the program and the library write, in a headless Chromium: pages.sh BUILD [-k WORD]
set -euo pipefail

build=$(realpath "$1")
shift
root=$(realpath "$(dirname "$0")/../..")
if ! command -v chromedriver >/dev/null; then
  printf 'report_pages: chromedriver is missing (Debian: chromium, chromium-driver)\n'
  exit 77
fi
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
cd "$root"
"$build/bin/hooked" harvest examples/toy_model --corpus examples/pairs.jsonl --field clean --dictionary examples/toy_sae \
  --with-error --names '*sae_acts_post' --examples 3 --context 16 --out "$pages/examples" >/dev/null
"$build/bin/hooked" report examples/toy_model --out "$pages/pair.html" --answer ' Mary' --against ' John' \
  --text 'When John and Mary went to the shop, John gave a bag to' \
  --corrupted 'When John and Mary went to the shop, Mary gave a bag to' \
  --dictionary examples/toy_sae --with-error --examples "$pages/examples" --neurons >/dev/null
HOOKED_PAGES=$pages "$build/tests/report_tests" --gtest_filter='ReportSizes.*' --gtest_brief=1
python3 -B tests/report/pages/test_report_page.py "$pages"/pair.html "$pages"/64.html "$pages"/1024.html "$@"
