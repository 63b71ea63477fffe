#!/bin/sh
# keep_ptxas_report.sh FOLDER COMMAND...: runs a compiler command and puts what ptxas says about registers and spills
# (option -Xptxas -v) into FOLDER, a file an object. All other messages pass, ptxas's warnings and hints too.
folder=$1
shift
object=unnamed previous=
for word in "$@"; do
  [ "$previous" = -o ] && object=$word
  previous=$word
done
usage='^ptxas info *: (Compiling entry function|Function properties for|Used [0-9]|Compile time|[0-9]+ bytes gmem)'
usage="$usage|^ +[0-9]+ bytes stack frame|^Function properties for"
said=$("$@" 2>&1)
status=$?
report=$folder/$(printf '%s' "$object" | tr '/' '_').txt
mkdir -p "$folder"
printf '%s\n' "$said" | grep -E "$usage" > "$report" || rm -f "$report"
rest=$(printf '%s\n' "$said" | grep -vE "$usage")
[ -z "$rest" ] || printf '%s\n' "$rest" >&2
exit $status
