module engine

go 1.25.0

require github.com/parca-dev/parca v0.28.0
