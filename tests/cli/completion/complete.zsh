#!/usr/bin/env zsh
# What zsh offers for a line: complete.zsh SCRIPT LINE prints what a terminal would show after TAB.
zmodload zsh/zpty || exit 77
zpty shell zsh -f -i
zpty -w shell "PS1=; stty columns 200 rows 100; autoload -U compinit; compinit -D -u"
zpty -w shell "LISTMAX=1000; zstyle ':completion:*' list-colors; setopt no_list_ambiguous; source $1; print rea''dy"
zpty -r -m shell line '*ready*' >/dev/null
zpty -w -n shell "$2"$'\t\t'
zpty -w shell $'\x15print do''ne'
zpty -r -m shell line '*done*'
print -r -- "$line"
zpty -d shell
