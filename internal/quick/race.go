//go:build race

package quick

const raceDetector = true
