# SPDX-License-Identifier: Apache-2.0
# bash completion of trainctl; goes to /usr/share/bash-completion/completions/
_trainctl()
{
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    local IFS=$'\n'

    COMPREPLY=($(trainctl __complete -- "${words[@]}" 2>/dev/null))
}
complete -o default -F _trainctl trainctl
