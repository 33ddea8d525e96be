#!/bin/sh
# Runs a Rust test binary for Cargo, keeps its report, and forgives it the canary: a test that must fail.
# It is copied out of the package under a random name; the words in capitals are replaced by then.
case $1 in
*/deps/*) ;;
*) exec "$@" ;;
esac
# What tests print belongs into the report, with the reason why they fail.
unset RUST_TEST_NOCAPTURE
for word; do
	shift
	case $word in --nocapture | --no-capture) ;; *) set -- "$@" "$word" ;; esac
done
report=REPORTS/TOKEN-$$
{
	pwd -P
	echo "$1"
	echo "$(sed -n '1s/^[^:]*: *\([^ ]*\).*/\1/p' "$1.d" 2>/dev/null)"
	RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --format json
	echo "exit $?"
} >"$report.part"
status=$(tail -n 1 "$report.part" | sed 's/.*exit //')
if [ "$status" != 0 ] && ! grep -q '^{ "type": "suite"' "$report.part"; then
	# Not the usual harness: it may have refused these options.
	rm "$report.part"
	exec "$@"
fi
mv "$report.part" "$report.txt"
sed -n -e '/TOKEN/d' -e 's/^{ "type": "test", "name": "\([^"]*\)", "event": "\([a-z]*\)".*/test \1 ... \2/p' \
	-e '/^{ "type"/d' -e '4,$p' "$report.txt" | sed '/^exit [0-9]*$/d'
failed=$(grep -c '"type": "test".*"event": "failed"' "$report.txt")
canary=$(grep -c '"type": "test", "name": "[^"]*TOKEN", "event": "failed"' "$report.txt")
if [ "$canary" = 1 ] && [ "$failed" = 1 ]; then
	exit 0
fi
exit "$status"
