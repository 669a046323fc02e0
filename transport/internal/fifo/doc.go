// Package fifo has a queue whose elements contain their links.
package fifo
