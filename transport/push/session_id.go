package push

import "crypto/rand"

// SessionID names a session of a log at its server: 128 random bits that the server tells only
// the client that has opened it. A program that works with a log can use it to find out whose log
// it is.
type SessionID [keyLen]byte

// ID returns the ID of the session at the server. It is zero before the first session. It changes whenever the log is opened again.
func (s *Session) ID() SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SessionID(s.server)
}

func newSessionID() (id SessionID) {
	_, _ = rand.Read(id[:]) // never fails, by its documentation
	return id
}
