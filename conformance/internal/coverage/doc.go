// Package coverage shows which test proves which rule. A rule is a [Row] of a document's table, in our
// words; a test names the rows that it proves by a tag:
//
//   - the comment "// spec: rdmap 7.4 response" on a test or inside it;
//   - in a table of the test, an element's field spec: "rdmap 7.3 F-AW". It is also the name
//     of the subtest.
//
// [Scan] finds the tags in the source, and [New] joins them with the rows. `make mutants`
// checks that tests of the rows can fail.
//
// A document may also be listed sentence by sentence, with the rules of the judge that check each sentence:
// see package judge.
package coverage
