// Package redial makes RPC clients outlive their connections: [Caller] opens another one when one has
// ended, and sends again the calls that may run twice or that the server recognizes (Call.Repeatable).
package redial
