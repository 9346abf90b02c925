package itemid_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/blobindex/indexd/blobindex/itemid"
)

func ExampleGrammar_Parse() {
	id, err := itemid.Epoch.Parse("train_eu_1700000000123")
	fmt.Println(id.Subkey(), id.Time().Format(time.RFC3339Nano), err)

	_, err = itemid.Epoch.Parse("train_eu_yesterday")
	var refused *itemid.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Reason)
	}
	// Output:
	// train_eu 2023-11-14T22:13:20.123Z <nil>
	// what follows the last "_" must be exactly 10, 13, 16 or 19 digits 0-9
}

func ExampleGrammar_Mint() {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	// Programs pass nil and get another id each time.
	id, err := itemid.Epoch.Mint("train_eu", at, strings.NewReader("\x00\x00\x00\x2a"))
	fmt.Println(id, err)
	// Output: train_eu_1796040000000000042 <nil>
}
