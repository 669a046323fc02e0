// Package matrix plays the cases of the probe to several peers, and writes one static page that compares them.
package matrix
