//go:build race

package rdmap_test

const raceDetector = true
