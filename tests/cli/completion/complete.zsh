#!/usr/bin/env zsh
# What zsh offers for a line: complete.zsh SCRIPT LINE prints what a terminal would show after TAB.
zmodload zsh/zpty zsh/zselect || exit 77

shown=
# Until `pattern` has come, and then nothing more for a second and a half; for 30 seconds at most.
take() {
  local chunk quiet=0
  shown=
  repeat 600; do
    if zpty -r shell chunk; then
      shown+=$chunk quiet=0
    else
      [[ $shown == ${~1} ]] && (( ++quiet > 30 )) && return
      zselect -t 5  # hundredths of a second
    fi
  done
}

zpty -b shell zsh -f -i
zpty -w shell "PS1=; stty columns 200 rows 100; autoload -U compinit; compinit -D -u"
zpty -w shell "LISTMAX=1000; setopt no_list_ambiguous; source $1; print rea''dy"
take '*ready*'
# A list is not shown while there is more to read: so the line is taken back after it has come.
zpty -w -n shell "$2"$'\t\t'
take "*${2%% *}?*[[:cntrl:]]*"
print -r -- "$shown"
zpty -d shell
