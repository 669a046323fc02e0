// Package mem has the memory of calls: pooled buffers, what replies are sent from, and memory of the application that is
// registered once with a connection and then lent again and again.
package mem
