"""Print a script that completes commands, options, topics and groups in a shell.

The script asks `barnabas complete` at each key press, so it never grows stale. Names of topics and groups are asked of
the broker that $BARNABAS_BROKERS or -b says.
"""

from __future__ import annotations

import argparse
import sys

EXAMPLES = """
  eval "$(barnabas completion bash)"                                       in ~/.bashrc
  eval "$(barnabas completion zsh)"                                        in ~/.zshrc, after compinit
  barnabas completion fish > ~/.config/fish/completions/barnabas.fish
"""

# Each hands the words up to the cursor to `barnabas complete`, the one that is being typed last; where that finds
# nothing, the shell completes file names.
SCRIPTS = {
    "bash": """\
_barnabas() {
    local IFS=$'\\n'
    COMPREPLY=($(barnabas complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
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
