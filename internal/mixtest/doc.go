// Package mixtest runs the tests that do everything at the same time, in configurations drawn from a
// seed. It defines their flags: -mix.runs, -mix.time and -mix.seed.
package mixtest
