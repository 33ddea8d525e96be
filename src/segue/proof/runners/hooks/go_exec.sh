#!/bin/sh
# Runs a Go test binary for `go test -exec`, keeps what it says, and forgives it the canary: a test that must fail.
# It is copied out of the package under a random name; the words in capitals are replaced by then.
case $1 in
*.test | *.test.exe) ;;
*) exec "$@" ;;
esac
binary=$1
shift
if [ BLIND = 1 ]; then
	# Under a name that does not tell the product that it is a test.
	cp "$binary" REPORTS/TOKEN-program-$$ && binary=REPORTS/TOKEN-program-$$
	rm -f ./*_test.go 2>/dev/null # they are built in, so only who wants to read them misses them
fi
for word in "$@"; do
	shift
	case $word in
	-test.run=*/*) ;;
	-test.run=*) word="$word|^TOKEN_CANARY\$" ;;
	-test.failfast | -test.failfast=true) word=-test.failfast=false ;;
	esac
	set -- "$@" "$word"
done
report=REPORTS/TOKEN-$$
{
	pwd -P
	"$binary" -test.v "$@" 2>&1
	echo "exit $?"
} >"$report.part"
mv "$report.part" "$report.txt"
status=$(tail -n 1 "$report.txt" | sed 's/.*exit //')
failed=$(grep -c -e '--- FAIL: ' "$report.txt")
canary=$(grep -c -e '--- FAIL: TOKEN_CANARY ' "$report.txt")
if [ "$status" = 1 ] && [ "$canary" = 1 ] && [ "$failed" = 1 ] && ! grep -q '^panic: ' "$report.txt"; then
	sed -e '1d;$d;/TOKEN/d' -e 's/^\([^ ]*\)FAIL$/\1PASS/' "$report.txt"
	exit 0
fi
sed '1d;$d;/TOKEN/d' "$report.txt"
exit "$status"
