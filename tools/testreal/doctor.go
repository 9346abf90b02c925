package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/blobindex/indexd/cas/probe"
)

// decisive are the questions that the doctor must answer wherever it is asked: with a missing one nothing would be found.
var decisive = []probe.ID{
	probe.PermissionReader, probe.PermissionProducer, probe.PermissionJanitor, probe.AbsentObject, probe.Versions,
	probe.CreateOnly, probe.CreateAfter, probe.IfMatch, probe.IfMatchStale, probe.IfMatchAbsent, probe.Impossible,
	probe.RacingCreates, probe.RacingIncrements, probe.TornReads, probe.AbsentReads, probe.OvertakenUpload,
	probe.ListAfterWrite, probe.Delete,
}

// The cases of the suite that are no questions. The first one tells the status, and after it what cannot be used.
const (
	statusCase = "exit status"
	leftCase   = "cleaning up"
)

// signs begin what is told of an answer.
var signs = map[probe.Answer]string{probe.Yes: "✓", probe.No: "✗", probe.Unsure: "?"}

// doctor has the program examine a new bucket, by all ways to it.
func (t target) doctor(ctx context.Context) (*probe.Report, []result, error) {
	dir, err := os.MkdirTemp("", "indexd-testreal-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	program, err := t.build(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	name, err := t.newBucket(ctx)
	if err != nil {
		return nil, nil, err
	}
	args := []string{"doctor", "--json", "--bucket", t.bucketURL(name, t.url)}
	if t.beside != "" {
		args = []string{"doctor", "--json", "--bucket", "s3://" + name, "--endpoint", t.url, "--endpoint", t.beside}
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(clean(os.Environ()), t.credentials()...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	own(cmd)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, nil, err
	}
	var report probe.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil || report.Format != probe.ReportFormat || !report.Complete {
		return nil, nil, fmt.Errorf("the doctor's report is not whole: %v, %v: %s%s", err, cmd.ProcessState,
			tail(stderr.String()), tail(stdout.String()))
	}
	return &report, doctorResults(&report, cmd.ProcessState.ExitCode()), nil
}

// doctorResults makes a case of each question, which passes if the answer is yes, and of how the run ended, which passes if
// everything can be used. How long it took is told and not judged.
func doctorResults(report *probe.Report, status int) []result {
	var results []result
	for _, f := range report.Findings {
		r := result{string(f.ID), "pass", ""}
		if f.Verdict != probe.Yes {
			r.status, r.output = "fail", signs[f.Verdict]+" "+f.Seen
		}
		results = append(results, r)
	}
	for _, id := range decisive {
		if report.Find(id) == nil {
			results = append(results, result{string(id), "fail", "not answered"})
		}
	}
	ended := result{testName(statusCase), "pass", fmt.Sprintf("%d:", status)}
	for _, f := range report.Disabled {
		ended.output += " " + string(f)
	}
	if status != 0 || len(report.Disabled) > 0 {
		ended.status = "fail"
	}
	ended.output += fmt.Sprintf("\nfigures: %d ways, %d questions, %.1f s", len(report.Sites), len(report.Findings),
		report.Seconds)
	left := result{testName(leftCase), "pass", ""}
	if len(report.Left) > 0 {
		left.status, left.output = "fail", "left: "+strings.Join(report.Left, ", ")
	}
	return append(results, ended, left)
}
