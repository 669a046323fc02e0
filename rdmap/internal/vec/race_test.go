//go:build race

package vec_test

const raceEnabled = true
