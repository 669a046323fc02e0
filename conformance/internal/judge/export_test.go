package judge

// QuotesInFile returns how many quotations there are.
func QuotesInFile() int { return len(quotes) }
