// Package checking has what the programs share: where the server is, and a line of output for each check.
package checking

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

// Address is that of the server, Secured that of one that wants a password.
var (
	Address = os.Args[1] + ":" + os.Args[2]
	Secured = os.Args[1] + ":" + os.Args[3]
)

// Same prints whether found is what was wanted. An error is found instead of a value.
func Same(what string, found any, err error, wanted any) {
	if err != nil {
		found = err.Error()
	}
	if reflect.DeepEqual(found, wanted) {
		fmt.Println("ok", what)
	} else {
		fmt.Printf("differs %s: %.100q was expected, %.100q came\n", what, fmt.Sprint(wanted), fmt.Sprint(found))
	}
}

// Done is Same for a call that has no result.
func Done(what string, err error) { Same(what, nil, err, nil) }

// Refused prints whether the error has this in its message.
func Refused(what string, err error, message string) {
	if err != nil && strings.Contains(err.Error(), message) {
		fmt.Println("ok", what)
	} else {
		fmt.Printf("differs %s: an error with %q was expected, %v came\n", what, message, err)
	}
}

// Soon is Same once find returns what is wanted, within two seconds.
func Soon(what string, find func() (any, error), wanted any) {
	until := time.Now().Add(2 * time.Second)
	found, err := find()
	for (err != nil || !reflect.DeepEqual(found, wanted)) && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
		found, err = find()
	}
	Same(what, found, err, wanted)
}

// End says that the program came to its end.
func End() { fmt.Println("end") }
