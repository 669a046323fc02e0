// Package memory has the memory of calls: pooled buffers, what replies are sent from, memory of the application that is
// registered once with a connection and then lent again and again, and what peers may touch of all that; and the counters.
package memory
