// Package itemid specifies how the id of an item is spelled, and finds the sub-key and the time inside it. It owns
// the grammars, and Mint, which makes new ids. It leaves to others what a time means (future, stale, late) and
// the signals that follow an id in a key ("~done"). It is pure: no clock is read and nothing is stored.
//
// # What every id must be
//
// The same rule holds for ids that come in through the API and for keys found in the bucket:
//
//   - 1 to 200 bytes (MaxLen) of valid UTF-8;
//   - no control character, which means the Unicode category Cc: U+0000 to U+001F, U+007F, U+0080 to U+009F. The
//     line and paragraph separators U+2028 and U+2029 are of other categories and are allowed, as are spaces and
//     direction marks: whoever prints an id must escape it;
//   - no "/", which separates keys, and no "~", which separates an id from its signal;
//   - no "__0x" anywhere, the escape by which some clients store other bytes than the ones they were given;
//   - no "." in front.
//
// # Grammars
//
// An index has one grammar. The time is in the last part of the id, or is the whole of it:
//
//	epoch          <subkey>_<10, 13, 16 or 19 digits>
//	ulid           <ulid>
//	uuidv7         <uuid>
//	ksuid          <ksuid>
//	subkey_ulid    <subkey>_<ulid>
//	subkey_uuidv7  <subkey>_<uuid>
//	subkey_ksuid   <subkey>_<ksuid>
//
// The split is at the last "_", which no time part can hold. The sub-key is what is before it, byte for byte, and is
// not empty; in the three bare grammars it is the whole id. No id has a second spelling: the text of a parsed id is
// the text that was given.
//
//   - epoch: decimal ASCII digits, counted from 1970-01-01T00:00:00Z without leap seconds: 10 digits are seconds,
//     13 milliseconds, 16 microseconds, 19 nanoseconds, the last up to 9223372036854775807 (2^63-1). Leading zeros
//     count as digits. Signs, spaces, exponents, other digits and other lengths do not parse.
//   - ulid: 26 characters of the alphabet 0123456789ABCDEFGHJKMNPQRSTVWXYZ, the first one 7 at the most
//     (github.com/ulid/spec; it ignores case, here lower case does not parse). Milliseconds.
//   - uuid: a UUID of version 7 and of the variant of RFC 9562, sections 4 and 5.7, in lower case with four hyphens.
//     Milliseconds.
//   - ksuid: 27 characters of 0-9A-Za-z, aWgEPTl1tmebfsQzFP4bxwgy80V at the most (github.com/segmentio/ksuid). Seconds
//     from 2014-05-13T16:53:20Z on.
//
// # Examples
//
// Grammar, id, sub-key and time of ids that parse:
//
//	epoch          9f3c_1700000000                            9f3c                                  2023-11-14T22:13:20Z
//	epoch          9f3c_1700000000123                         9f3c                                  2023-11-14T22:13:20.123Z
//	epoch          9f3c_1700000000123456                      9f3c                                  2023-11-14T22:13:20.123456Z
//	epoch          9f3c_1700000000123456789                   9f3c                                  2023-11-14T22:13:20.123456789Z
//	epoch          9f3c_0000000000                            9f3c                                  1970-01-01T00:00:00Z
//	epoch          9f3c_9999999999                            9f3c                                  2286-11-20T17:46:39Z
//	epoch          9f3c_9223372036854775807                   9f3c                                  2262-04-11T23:47:16.854775807Z
//	epoch          train_eu_1700000000                        train_eu                              2023-11-14T22:13:20Z
//	epoch          ab__1700000000                             ab_                                   2023-11-14T22:13:20Z
//	epoch          1700000000_1700000001                      1700000000                            2023-11-14T22:13:21Z
//	ulid           01HF7YAT00041061050R3GG28A                 01HF7YAT00041061050R3GG28A            2023-11-14T22:13:20Z
//	ulid           7ZZZZZZZZZZZZZZZZZZZZZZZZZ                 7ZZZZZZZZZZZZZZZZZZZZZZZZZ            10889-08-02T05:31:50.655Z
//	uuidv7         017f22e2-79b0-7cc3-98c4-dc0c0c07398f       017f22e2-79b0-7cc3-98c4-dc0c0c07398f  2022-02-22T19:22:22Z
//	ksuid          0ujtsYcgvSTl8PAuAdqWYSMnLOv                0ujtsYcgvSTl8PAuAdqWYSMnLOv           2017-10-10T04:00:47Z
//	subkey_ulid    9f3c_01HF7YAT00041061050R3GG28A            9f3c                                  2023-11-14T22:13:20Z
//	subkey_uuidv7  9f3c_017f22e2-79b0-7cc3-98c4-dc0c0c07398f  9f3c                                  2022-02-22T19:22:22Z
//	subkey_ksuid   9f3c_0ujtsYcgvSTl8PAuAdqWYSMnLOv           9f3c                                  2017-10-10T04:00:47Z
//
// Grammar and text, and below them the reason why it does not parse:
//
//	epoch          ""
//	    it is empty; an id has 1 to 200 bytes
//	epoch          "1700000000"
//	    it has no "_" between a sub-key and a time
//	epoch          "_1700000000"
//	    nothing stands before the last "_"; the sub-key must not be empty
//	epoch          "9f3c_170000000"
//	    what follows the last "_" must be exactly 10, 13, 16 or 19 digits 0-9
//	epoch          "9f3c_-170000000"
//	    what follows the last "_" must be exactly 10, 13, 16 or 19 digits 0-9
//	epoch          "9f3c_1700000000_ab"
//	    what follows the last "_" must be exactly 10, 13, 16 or 19 digits 0-9
//	epoch          "9f3c_9223372036854775808"
//	    its nanoseconds must not be more than 9223372036854775807
//	epoch          ".9f3c_1700000000"
//	    it must not start with a dot
//	epoch          "team/9f3c_1700000000"
//	    it must not hold a "/"
//	epoch          "9f3c~x_1700000000"
//	    it must not hold a "~"
//	epoch          "9f3c\n_1700000000"
//	    it must not hold a control character
//	epoch          "9f3c\xff_1700000000"
//	    it must be valid UTF-8
//	epoch          "9f3c__0x2f___1700000000"
//	    it must not hold "__0x", which some clients take for an escape
//	ulid           "01hf7yat00041061050r3gg28a"
//	    its time part must be an upper-case ULID of 26 characters, the first one 0 to 7
//	ulid           "8ZZZZZZZZZZZZZZZZZZZZZZZZZ"
//	    its time part must be an upper-case ULID of 26 characters, the first one 0 to 7
//	uuidv7         "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}"
//	    its time part must be a lower-case UUID of 36 characters with its four hyphens
//	uuidv7         "919108f7-52d1-4320-9bac-f847db4148a8"
//	    its UUID must be of version 7 and of the variant of RFC 9562
//	ksuid          "aWgEPTl1tmebfsQzFP4bxwgy80W"
//	    its time part must be a KSUID: 27 characters 0-9A-Za-z, aWgEPTl1tmebfsQzFP4bxwgy80V at the most
//	subkey_ulid    "01HF7YAT00041061050R3GG28A"
//	    it has no "_" between a sub-key and a time
//	subkey_uuidv7  "_017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
//	    nothing stands before the last "_"; the sub-key must not be empty
//	subkey_ksuid   "0ujtsYcgvSTl8PAuAdqWYSMnLOv_9f3c"
//	    its time part must be a KSUID: 27 characters 0-9A-Za-z, aWgEPTl1tmebfsQzFP4bxwgy80V at the most
package itemid
