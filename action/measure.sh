#!/usr/bin/env bash
# Runs loadstone in a job of GitHub Actions: installs it, measures, writes the results to the job's summary
# and to its pull request. It ends well whatever was measured; the exit code is an output, so that the report
# is uploaded before the job fails.
set -euo pipefail

python3 -m venv "$RUNNER_TEMP/loadstone"
PATH="$RUNNER_TEMP/loadstone/bin:$PATH"
pip install --quiet -- "$LOADSTONE_INSTALL"

if [ -e "$LOADSTONE_FOLDER" ]; then
    # What is in it would be taken for this job's results, and may come with the branch.
    echo "error: there is a \"$LOADSTONE_FOLDER\" before anything was measured" >&2
    exit 1
fi
# Words as a shell would split them, quotes included, and nothing else of a shell.
words="$RUNNER_TEMP/loadstone.words"
xargs printf '%s\0' <<<"$LOADSTONE_ARGUMENTS" >"$words"
mapfile -d '' -t arguments <"$words"
summary="$RUNNER_TEMP/loadstone.md"
code=0
if [ "${arguments[0]:-}" = ab ]; then
    # Options behind the workload are the workload's. The answer of a gate is its own.
    loadstone ab -o "$LOADSTONE_FOLDER" -f markdown "${arguments[@]:1}" | tee "$summary" || code=$?
else
    loadstone "${arguments[@]}" -o "$LOADSTONE_FOLDER" || code=$?
fi
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
if [ ! -e "$LOADSTONE_FOLDER/manifest.json" ]; then
    echo "loadstone ended with $code, and there is no run to report" | tee -a "$GITHUB_STEP_SUMMARY" >&2
    exit 0
fi

[ "${arguments[0]}" = ab ] || loadstone report "$LOADSTONE_FOLDER" -f markdown >"$summary"
loadstone report "$LOADSTONE_FOLDER" -o "$LOADSTONE_FOLDER.html"
cat "$summary" >>"$GITHUB_STEP_SUMMARY"
if [ "$LOADSTONE_COMMENT" = true ] && [ -n "$LOADSTONE_PULL_REQUEST" ]; then
    # Of several pushes the last one's results stand, in one comment. A fork's token may not comment.
    gh pr comment "$LOADSTONE_PULL_REQUEST" --body-file "$summary" --edit-last --create-if-none ||
        echo "warning: the results could not be commented; they are in the job's summary" >&2
fi
