"""Print a script that completes commands, options, topics and groups in a shell.

The script calls `barnabas complete` at each key press, so it needs no update with a new version. Names of topics and
groups come from the broker at $BARNABAS_BROKERS or -b.
"""

import argparse
import sys

EXAMPLES = """
  eval "$(barnabas completion bash)"                                       in ~/.bashrc
  eval "$(barnabas completion zsh)"                                        in ~/.zshrc, after compinit
  barnabas completion fish > ~/.config/fish/completions/barnabas.fish
"""

# Each passes the words up to the cursor to `barnabas complete`, the typed one last; if that prints nothing, the shell
# completes file names.
SCRIPTS = {
    "bash": """\
_barnabas() {
    local IFS=$'\\n' line=${COMP_LINE:0:COMP_POINT} words=() word gap typed
    # Join what bash has split at ':' and '=': the words with no space before them.
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        gap=${line%%[![:space:]]*}
        line=${line#"$gap"}
        line=${line#"$word"}
        if [[ -n $gap || ${#words[@]} -eq 0 ]]; then
            words+=("$word")
        else
            words[${#words[@]}-1]+=$word
        fi
    done
    COMPREPLY=($(barnabas complete "${words[@]:1}" 2>/dev/null | cut -f1))
    # bash replaces only the part of the word after the last of these.
    typed=${words[${#words[@]}-1]}
    word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=("${COMPREPLY[@]#"${typed%"${word##[:=]}"}"}")
}
complete -o default -F _barnabas barnabas
""",
    "zsh": """\
_barnabas() {
    local -a found
    local line about
    while IFS=$'\\t' read -r line about; do
        found+=("${line//:/\\\\:}${about:+:$about}")
    done < <(barnabas complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( ${#found} )); then
        _describe 'barnabas' found
    else
        _files
    fi
}
compdef _barnabas barnabas
""",
    "fish": """\
complete -c barnabas -f -a '(barnabas complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
complete -c barnabas -n 'test -z "(barnabas complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)"' -F
""",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the argument."""
    parser.add_argument("shell", choices=SCRIPTS, metavar="SHELL", help="one of: bash, zsh, fish")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write(SCRIPTS[options.shell])
    return 0
